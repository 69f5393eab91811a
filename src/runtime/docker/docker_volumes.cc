#include "runtime/docker/docker_volumes.h"

#include <filesystem>
#include <sys/statvfs.h>

#include <boost/json/object.hpp>

#include "api/lifecycle_error.h"
#include "base/json_escape.h"
#include "base/log.h"
#include "http/url.h"
#include "runtime/docker/container.h"
#include "runtime/docker/engine_json.h"

namespace osb::runtime {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
namespace reason = api::reason;

std::string volume_path(const std::string& name) { return "/volumes/" + http::percent_encode(name); }

bool is_below(const fs::path& path, const fs::path& root) {
  return api::host_path_allowed(path.string(), std::vector<std::string>{root.string()});
}

Failure not_allowed(const std::string& path) {
  return api::refuse(Code::InvalidRequest, reason::kVolumeHostPathNotAllowed,
                     in_quotes(path) + " is not below a path of [storage] allowed_host_paths");
}

Failure create_failed(const std::string& path, const std::string& why) {
  return api::refuse(Code::Internal, "VOLUME::HOST_PATH_CREATE_FAILED", in_quotes(path) + ": " + why);
}

// The real path of a host volume, whether it is there or not. Symbolic links are followed before the rule is applied,
// so that none leads out of what is allowed; the engine gets the path behind them.
Result<fs::path> real_host_path(const std::string& path, const std::vector<std::string>& allowed) {
  std::error_code error;
  fs::path real = fs::weakly_canonical(path, error);
  if (error) return create_failed(path, error.message());
  for (const std::string& prefix : allowed) {
    const fs::path root = fs::weakly_canonical(prefix, error);
    if (error || !is_below(real, root)) continue;
    if (real.string().find(':') != std::string::npos) return create_failed(path, "the path behind it contains a colon");
    return real;
  }
  return not_allowed(path);
}

// The same, made if it was missing.
Result<std::string> open_host_path(const std::string& path, const std::vector<std::string>& allowed) {
  auto real = real_host_path(path, allowed);
  if (!real) return Failure(real.error());
  std::error_code error;
  if (!fs::exists(*real, error)) {
    fs::create_directories(*real, error);
    if (error) return create_failed(path, error.message());
    real = real_host_path(real->string(), allowed);  // another process may have made it first
    if (!real) return Failure(real.error());
  }
  return real->string();
}

// The path of a host volume, as the request has it.
Result<std::string> wanted_host_path(const VolumeContext& context, const api::Volume& volume) {
  std::string path = volume.host->path;
  if (!volume.sub_path.empty()) path += (path.ends_with('/') ? "" : "/") + volume.sub_path;
  path = fs::path(path).lexically_normal().string();
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  if (!api::host_path_allowed(path, context.allowed_host_paths)) return not_allowed(path);
  return path;
}

net::awaitable<Result<std::string>> host_source(const VolumeContext& context, const api::Volume& volume) {
  const auto path = wanted_host_path(context, volume);
  if (!path || !context.local) co_return path;
  co_return co_await context.pool.run([&] { return open_host_path(*path, context.allowed_host_paths); });
}

Failure wrong_sub_path(const std::string& sub_path, const std::string& volume, const std::string& why) {
  return api::refuse(Code::InvalidRequest, reason::kVolumeInvalidSubPath,
                     in_quotes(sub_path) + " of volume " + volume + ": " + why);
}

// A directory in a volume, as a path of the host, whether it is there or not. The sandbox of another may have put a
// link in its place, so it must be possible to look.
Result<fs::path> real_sub_path(const std::string& root, const std::string& sub_path, const std::string& volume) {
  std::error_code error;
  const fs::path real_root = fs::canonical(root, error);
  if (error) {
    return wrong_sub_path(sub_path, volume, "the server cannot look into the volume (" + error.message() + ")");
  }
  fs::path real = fs::weakly_canonical(real_root / sub_path, error);
  if (error) return wrong_sub_path(sub_path, volume, error.message());
  if (!is_below(real, real_root)) return wrong_sub_path(sub_path, volume, "leads out of the volume");
  if (real.string().find(':') != std::string::npos) return wrong_sub_path(sub_path, volume, "contains a colon");
  return real;
}

Result<std::string> open_sub_path(const std::string& root, const std::string& sub_path, const std::string& volume) {
  const auto real = real_sub_path(root, sub_path, volume);
  if (!real) return Failure(real.error());
  std::error_code error;
  fs::create_directories(*real, error);
  if (error) return wrong_sub_path(sub_path, volume, error.message());
  return real->string();
}

Failure volume_missing(const std::string& name) {
  return api::refuse(Code::InvalidRequest, "VOLUME::PVC_NOT_FOUND", "volume " + name + " does not exist");
}

// Whether a part of this volume can be mounted at all; where the volume is.
Result<std::string> mount_point(const VolumeContext& context, const json::value& volume, const std::string& name) {
  std::string root = engine::text(volume, {"Mountpoint"});
  if (engine::text(volume, {"Driver"}) != "local" || root.empty()) {
    return api::refuse(Code::InvalidRequest, "VOLUME::PVC_SUBPATH_UNSUPPORTED_DRIVER",
                       "volume " + name + ": a subPath needs the driver local");
  }
  if (!context.local) {
    return api::refuse(Code::InvalidRequest, reason::kVolumeInvalidSubPath,
                       "volume " + name + ": a subPath needs an engine on the server's own machine");
  }
  return root;
}

net::awaitable<Result<std::string>> named_source(const VolumeContext& context, const api::Volume& volume,
                                                 DockerVolumes& out) {
  const api::PvcVolume& pvc = *volume.pvc;
  auto found = co_await context.engine.call({.target = volume_path(pvc.claim_name)});
  if (!found && found.error().code == Code::NotFound) {
    if (!pvc.create_if_not_exists) co_return volume_missing(pvc.claim_name);
    EngineClient::Call call{.method = "POST", .target = "/volumes/create"};
    call.body =
        json::object{{"Name", pvc.claim_name},
                     {"Labels", json::object{{label::kManagedVolumes, "server"}, {label::kMadeFor, context.sandbox}}}};
    found = co_await context.engine.call(std::move(call));
  }
  if (!found) {
    if (found.error().code == Code::Unavailable) co_return Failure(found.error());
    co_return api::refuse(Code::Internal, "VOLUME::PVC_INSPECT_FAILED",
                          "volume " + pvc.claim_name + ": " + found.error().message);
  }
  // Made now, or by an earlier try of the same create, maybe by a process that was killed over it.
  if (engine::text(*found, {"Labels", label::kMadeFor}) == context.sandbox) {
    out.created.push_back(pvc.claim_name);
    if (pvc.delete_on_sandbox_termination) out.managed.push_back(pvc.claim_name);
  }
  if (volume.sub_path.empty()) co_return pvc.claim_name;
  const auto root = mount_point(context, *found, pvc.claim_name);
  if (!root) co_return Failure(root.error());
  co_return co_await context.pool.run([&] { return open_sub_path(*root, volume.sub_path, pvc.claim_name); });
}

// Whether the kernel of the host ignores the setuid bits and capabilities of files there.
bool is_nosuid(int file) {
  struct statvfs found{};
  return ::fstatvfs(file, &found) == 0 && (found.f_flag & ST_NOSUID) != 0;
}

Result<void> without_value(const Result<fs::path>& path) {
  if (!path) return Failure(path.error());
  return {};
}

net::awaitable<Result<void>> look_at(const VolumeContext& context, const api::Volume& volume) {
  if (volume.host) {
    const auto path = wanted_host_path(context, volume);
    if (!path) co_return Failure(path.error());
    if (!context.local) co_return Result<void>();
    co_return co_await context.pool.run(
        [&] { return without_value(real_host_path(*path, context.allowed_host_paths)); });
  }
  const api::PvcVolume& pvc = *volume.pvc;
  const auto found = co_await context.engine.call({.target = volume_path(pvc.claim_name)});
  if (!found) {
    if (found.error().code == Code::NotFound && !pvc.create_if_not_exists) co_return volume_missing(pvc.claim_name);
    co_return Result<void>();  // to be made; or the engine is away, and the create will find out
  }
  if (volume.sub_path.empty()) co_return Result<void>();
  const auto root = mount_point(context, *found, pvc.claim_name);
  if (!root) co_return Failure(root.error());
  co_return co_await context.pool.run(
      [&] { return without_value(real_sub_path(*root, volume.sub_path, pvc.claim_name)); });
}

}  // namespace

Result<void> check_docker_volumes(const std::vector<api::Volume>& volumes) {
  for (std::size_t i = 0; i < volumes.size(); ++i) {
    const std::string where = "/volumes/" + std::to_string(i);
    if (volumes[i].ossfs) {
      return api::invalid_parameter(where, "the docker backend has host paths and named volumes (pvc) only");
    }
    // It is what separates source, target and mode.
    if (volumes[i].mount_path.find(':') != std::string::npos) {
      return api::invalid_parameter(where + "/mountPath", "must not contain a colon");
    }
    if (volumes[i].host && volumes[i].host->path.find(':') != std::string::npos) {
      return api::invalid_parameter(where + "/host/path", "must not contain a colon");
    }
    if (volumes[i].sub_path.find(':') != std::string::npos) {
      return api::invalid_parameter(where + "/subPath", "must not contain a colon");
    }
  }
  return {};
}

net::awaitable<Result<void>> look_at_volumes(const VolumeContext& context, const std::vector<api::Volume>& volumes) {
  for (const api::Volume& volume : volumes) {
    if (auto ok = co_await look_at(context, volume); !ok) co_return ok;
  }
  co_return Result<void>();
}

net::awaitable<Result<void>> prepare_volumes(const VolumeContext& context, const std::vector<api::Volume>& volumes,
                                             DockerVolumes& out) {
  for (const api::Volume& volume : volumes) {
    auto source = volume.host ? co_await host_source(context, volume) : co_await named_source(context, volume, out);
    if (!source) co_return Failure(source.error());
    if (context.local && source->starts_with('/')) {
      PinnedMount pin{
          .source = *source,
          .target = volume.mount_path,
          .reason = std::string(volume.host ? reason::kVolumeHostPathNotAllowed : reason::kVolumeInvalidSubPath),
          .file = UniqueFd()};
      auto file = co_await context.pool.run([&] { return open_pinned(pin.source); });
      if (!file) co_return api::refuse(Code::InvalidRequest, pin.reason, file.error().message);
      pin.file = std::move(*file);
      out.pinned.push_back(std::move(pin));
    }
    if (volume.host && !volume.read_only && !(context.local && is_nosuid(out.pinned.back().file.get()))) {
      out.open_to_users = true;
    }
    out.binds.push_back(*source + ":" + volume.mount_path + (volume.read_only ? ":ro" : ":rw"));
  }
  co_return Result<void>();
}

net::awaitable<void> remove_managed_volumes(EngineClient& engine, std::vector<std::string> names) {
  for (const std::string& name : names) {
    const auto found = co_await engine.call({.target = volume_path(name)});
    if (!found || engine::text(*found, {"Labels", label::kManagedVolumes}) != "server") continue;
    const auto removed = co_await engine.call({.method = "DELETE", .target = volume_path(name)});
    if (!removed && removed.error().code != Code::NotFound) {
      log_warn("volume not removed", {{"volume", name}, {"error", removed.error().message}});
    }
  }
}

}  // namespace osb::runtime
