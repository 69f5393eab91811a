#include "api/execd_isolated.h"

#include <algorithm>
#include <limits>
#include <set>

#include "api/json.h"
#include "base/text.h"

namespace osb::api {
namespace {

constexpr std::size_t kMaxMounts = 16;
constexpr std::size_t kMaxLists = 32;
constexpr std::int64_t kMaxSeconds = 365LL * 24 * 3600;

bool is_clean(std::string_view path) {
  if (path.size() < 2 || path.size() > 4096 || path[0] != '/' || path.ends_with('/') || path.contains('\0'))
    return false;
  for (std::size_t at = 1; at <= path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    const std::string_view name = path.substr(at, end - at);
    if (name.empty() || name == "." || name == "..") return false;
    at = end + 1;
  }
  return true;
}

// The kernel's own directories are the session's own, or nobody's.
bool is_reserved(std::string_view path) {
  return std::ranges::any_of(
      std::initializer_list<std::string_view>{"/proc", "/sys", "/dev"},
      [path](std::string_view top) { return path == top || (path.starts_with(top) && path[top.size()] == '/'); });
}

std::string path_field(ObjectReader& r, std::string_view name, bool required) {
  std::string path = required ? r.required_string(name) : r.optional_string(name).value_or("");
  if (path.empty() && !required) return path;
  if (!is_clean(path)) r.reject(name, "expected an absolute path without . and .. that is not /");
  if (is_reserved(path)) r.reject(name, "must not be in /proc, /sys or /dev");
  return path;
}

std::string choice(ObjectReader& r, std::string_view name, std::initializer_list<std::string_view> choices,
                   std::string_view usual) {
  std::string value = r.optional_string(name).value_or("");
  if (value.empty()) return std::string(usual);
  if (std::ranges::find(choices, value) == choices.end()) {
    std::string all;
    for (const std::string_view each : choices) all.append(all.empty() ? "" : ", ").append(each);
    r.reject(name, "expected one of " + all);
  }
  return value;
}

std::optional<std::uint32_t> id_number(ObjectReader& r, std::string_view name) {
  const auto number = r.optional_int64(name, 0, std::numeric_limits<std::uint32_t>::max() - 1);
  return number ? std::optional(static_cast<std::uint32_t>(*number)) : std::nullopt;
}

void read_mounts(ObjectReader& r, CreateIsolatedSession& out) {
  const auto modes = {std::string_view("rw"), std::string_view("overlay"), std::string_view("ro")};
  out.has_workspace = r.object("workspace", [&](ObjectReader& workspace) {
    IsolatedMount mount;
    mount.path = path_field(workspace, "path", true);
    mount.mode = choice(workspace, "mode", modes, out.strict ? "overlay" : "rw");
    out.mounts.push_back(std::move(mount));
  });
  r.array("overlays", [&](ObjectReader& overlay) {
    IsolatedMount mount;
    mount.path = path_field(overlay, "path", true);
    mount.mode = choice(overlay, "mode", modes, "overlay");
    const auto persist = overlay.optional_bool("persist");
    if (persist && mount.mode != "overlay") overlay.reject("persist", "is for the mode overlay");
    mount.persist = persist.value_or(true);
    out.mounts.push_back(std::move(mount));
  });
  if (out.mounts.empty()) r.reject("workspace", "workspace or overlays is required");
  if (out.mounts.size() > kMaxMounts) r.reject("overlays", "at most 16 with the workspace");
  std::set<std::string> paths;
  for (const IsolatedMount& mount : out.mounts) {
    if (!paths.insert(mount.path).second) r.reject("overlays", "the path " + mount.path + " is there twice");
  }
}

void read_lists(ObjectReader& r, CreateIsolatedSession& out) {
  out.extra_writable = r.string_list("extra_writable").value_or(std::vector<std::string>());
  for (const std::string& path : out.extra_writable) {
    if (!is_clean(path) || is_reserved(path)) r.reject("extra_writable", path + " is no absolute clean path");
  }
  r.array("binds", [&](ObjectReader& bind) {
    IsolatedBind one;
    one.source = path_field(bind, "source", true);
    one.dest = path_field(bind, "dest", false);
    if (one.dest.empty()) one.dest = one.source;
    one.read_only = bind.optional_bool("readonly").value_or(false);
    out.binds.push_back(std::move(one));
  });
  if (out.extra_writable.size() > kMaxLists) r.reject("extra_writable", "at most 32");
  if (out.binds.size() > kMaxLists) r.reject("binds", "at most 32");
}

Result<json::value> parse_body(std::string_view body) {
  auto value = parse_json(body, {.ignore_trailing = true});
  if (!value) value.error().reason = kExecdReading.reason;
  return value;
}

}  // namespace

Result<CreateIsolatedSession> decode_create_isolated_session(std::string_view body) {
  const auto value = parse_body(body);
  if (!value) return Failure(value.error());
  ObjectReader r(*value, kExecdReading);
  CreateIsolatedSession out;
  out.strict = choice(r, "profile", {"strict", "balanced"}, "strict") == "strict";
  read_mounts(r, out);
  read_lists(r, out);
  out.share_net = r.optional_bool("share_net").value_or(true);
  out.env_given = r.object("env_passthrough", [&](ObjectReader& env) {
    out.env_allow = choice(env, "mode", {"deny", "allow"}, "deny") == "allow";
    out.env_keys = env.string_list("keys").value_or(std::vector<std::string>());
  });
  out.uid = id_number(r, "uid");
  out.gid = id_number(r, "gid");
  if (out.gid && !out.uid) r.reject("gid", "needs uid");
  out.uid_mode = choice(r, "uid_mode", {"setpriv", "userns"}, "setpriv");
  out.idle_timeout = std::chrono::seconds(r.optional_int64("idle_timeout_seconds", 0, kMaxSeconds).value_or(1800));
  if (auto done = r.finish(); !done) return Failure(std::move(done.error()));
  return out;
}

Result<RunIsolated> decode_run_isolated(std::string_view body) {
  const auto value = parse_body(body);
  if (!value) return Failure(value.error());
  ObjectReader r(*value, kExecdReading);
  RunIsolated out;
  out.code = r.required_string("code");
  if (out.code.contains('\0')) r.reject("code", "must not contain a NUL byte");
  out.envs = r.string_map("envs").value_or(std::map<std::string, std::string>());
  for (const auto& [name, text] : out.envs) {
    const bool identifier = !name.empty() && (name[0] < '0' || name[0] > '9') &&
                            std::ranges::all_of(name, [](char c) { return is_letter_or_digit(c) || c == '_'; });
    if (!identifier || text.contains('\0')) r.reject("envs", "a name must be one of a shell's variables, without NUL");
  }
  out.timeout = std::chrono::seconds(r.optional_int64("timeout_seconds", 0, kMaxSeconds).value_or(0));
  out.background = r.optional_bool("background").value_or(false);
  if (out.background && out.timeout.count() > 0) r.reject("timeout_seconds", "is for runs in the foreground");
  if (auto done = r.finish(); !done) return Failure(std::move(done.error()));
  return out;
}

}  // namespace osb::api
