#include "execd/isolated/isolated_plan.h"

#include <algorithm>
#include <map>

#include "base/text.h"

namespace osb::execd {
namespace {

// Names of variables that hold secrets, in upper case: a beginning or an end.
constexpr std::string_view kSecretEnds[] = {"_API_KEY", "_TOKEN", "_SECRET", "_PASSWORD"};
constexpr std::string_view kSecretBeginnings[] = {"AWS_", "ALI_", "ALIYUN_", "K8S_", "KUBE_"};
// A shell is of no use without these.
constexpr std::string_view kAlways[] = {"PATH", "HOME"};

bool is_secret(std::string_view given) {
  const std::string name = upper(given);
  return std::ranges::any_of(kSecretEnds, [&](std::string_view end) { return name.ends_with(end); }) ||
         std::ranges::any_of(kSecretBeginnings, [&](std::string_view begin) { return name.starts_with(begin); });
}

Result<void> check_allowed(const IsolationOptions& options, const std::string& path, const char* field) {
  for (const std::string& allowed : options.allowed_writable) {
    if (path == allowed || path.starts_with(allowed + "/")) return {};
  }
  Error error(Code::InvalidRequest,
              std::string("/") + field + ": " + path + " is not in a directory that isolated sessions may use");
  error.reason = "INVALID_REQUEST_BODY";
  return Failure(std::move(error));
}

SessionMount::Mode mode_of(const std::string& mode) {
  return mode == "rw"   ? SessionMount::Mode::ReadWrite
         : mode == "ro" ? SessionMount::Mode::ReadOnly
                        : SessionMount::Mode::Overlay;
}

}  // namespace

Result<SessionSpec> plan_isolated_session(const api::CreateIsolatedSession& request, const IsolationOptions& options,
                                          std::uint64_t memory) {
  SessionSpec out;
  out.private_tmp = request.strict;
  out.share_net = request.share_net;
  out.uid = request.uid;
  out.gid = request.gid;
  out.user_namespace = request.uid_mode == "userns";
  out.upper_bytes = std::max<std::uint64_t>(std::min(options.upper_max_bytes, memory / 2), 1 << 20);
  out.diff_bytes = options.diff_max_bytes;
  out.reserve = options.reserve;
  for (const api::IsolatedMount& mount : request.mounts) {
    out.mounts.push_back({mount.path, mount.path, mode_of(mount.mode), mount.persist});
  }
  for (const std::string& path : request.extra_writable) {
    if (auto allowed = check_allowed(options, path, "extra_writable"); !allowed) return Failure(allowed.error());
    out.mounts.push_back({path, path, SessionMount::Mode::ReadWrite});
  }
  for (const api::IsolatedBind& bind : request.binds) {
    for (const std::string& path : {bind.source, bind.dest}) {
      if (auto allowed = check_allowed(options, path, "binds"); !allowed) return Failure(allowed.error());
    }
    out.mounts.push_back(
        {bind.source, bind.dest, bind.read_only ? SessionMount::Mode::ReadOnly : SessionMount::Mode::ReadWrite});
  }
  // Parents first; of equal depth in the order of the request.
  std::multimap<std::ptrdiff_t, SessionMount> by_depth;
  for (SessionMount& mount : out.mounts) by_depth.emplace(std::ranges::count(mount.path, '/'), std::move(mount));
  out.mounts.clear();
  for (auto& [depth, mount] : by_depth) out.mounts.push_back(std::move(mount));
  return out;
}

Environment isolated_environment(const api::CreateIsolatedSession& request, const Environment& all) {
  Environment out;
  for (const auto& [name, value] : all) {
    const bool named = std::ranges::find(request.env_keys, name) != request.env_keys.end();
    const bool always = std::ranges::find(kAlways, name) != std::end(kAlways);
    const bool passed = request.env_allow ? named : !named && !(request.strict && is_secret(name));
    if (passed || always) out.emplace(name, value);
  }
  return out;
}

}  // namespace osb::execd
