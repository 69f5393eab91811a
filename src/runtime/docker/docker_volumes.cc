#include "runtime/docker/docker_volumes.h"

#include <filesystem>

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
                     osb::quoted(path) + " is not below a path of [storage] allowed_host_paths");
}

// The real path of a host volume, made if it was missing. Symbolic links are followed before the rule is applied, so
// that none leads out of what is allowed; the engine gets the path behind them.
Result<std::string> open_host_path(const std::string& path, const std::vector<std::string>& allowed) {
  std::error_code error;
  const auto permitted = [&](const fs::path& real) {
    for (const std::string& prefix : allowed) {
      std::error_code ignored;
      const fs::path root = fs::weakly_canonical(prefix, ignored);
      if (!ignored && is_below(real, root)) return true;
    }
    return false;
  };
  const auto create_failed = [&](const std::string& why) {
    return api::refuse(Code::Internal, "VOLUME::HOST_PATH_CREATE_FAILED", osb::quoted(path) + ": " + why);
  };
  fs::path real = fs::weakly_canonical(path, error);
  if (error) return create_failed(error.message());
  if (!permitted(real)) return not_allowed(path);
  if (!fs::exists(real, error)) {
    fs::create_directories(real, error);
    if (error) return create_failed(error.message());
    real = fs::canonical(real, error);
    if (error) return create_failed(error.message());
    if (!permitted(real)) return not_allowed(path);
  }
  if (real.string().find(':') != std::string::npos) return create_failed("the path behind it contains a colon");
  return real.string();
}

net::awaitable<Result<std::string>> host_source(const VolumeContext& context, const api::Volume& volume) {
  std::string path = volume.host->path;
  if (!volume.sub_path.empty()) path += (path.ends_with('/') ? "" : "/") + volume.sub_path;
  path = fs::path(path).lexically_normal().string();
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  if (!api::host_path_allowed(path, context.allowed_host_paths)) co_return not_allowed(path);
  if (!context.local) co_return path;
  co_return co_await context.pool.run([&] { return open_host_path(path, context.allowed_host_paths); });
}

// A directory in a volume, as a path of the host. The sandbox of another may have put a link in its place, so it must
// be possible to look.
Result<std::string> open_sub_path(const std::string& root, const std::string& sub_path, const std::string& volume) {
  const auto wrong = [&](const std::string& why) {
    return api::refuse(Code::InvalidRequest, reason::kVolumeInvalidSubPath,
                       osb::quoted(sub_path) + " of volume " + volume + ": " + why);
  };
  std::error_code error;
  const fs::path real_root = fs::canonical(root, error);
  if (error) return wrong("the server cannot look into the volume (" + error.message() + ")");
  const fs::path real = fs::weakly_canonical(real_root / sub_path, error);
  if (error) return wrong(error.message());
  if (!is_below(real, real_root)) return wrong("leads out of the volume");
  fs::create_directories(real, error);
  if (error) return wrong(error.message());
  if (real.string().find(':') != std::string::npos) return wrong("contains a colon");
  return real.string();
}

net::awaitable<Result<std::string>> named_source(const VolumeContext& context, const api::Volume& volume,
                                                 DockerVolumes& out) {
  const api::PvcVolume& pvc = *volume.pvc;
  auto found = co_await context.engine.call({.target = volume_path(pvc.claim_name)});
  if (!found && found.error().code == Code::NotFound) {
    if (!pvc.create_if_not_exists) {
      co_return api::refuse(Code::InvalidRequest, "VOLUME::PVC_NOT_FOUND",
                            "volume " + pvc.claim_name + " does not exist");
    }
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
  const std::string root = engine::text(*found, {"Mountpoint"});
  if (engine::text(*found, {"Driver"}) != "local" || root.empty()) {
    co_return api::refuse(Code::InvalidRequest, "VOLUME::PVC_SUBPATH_UNSUPPORTED_DRIVER",
                          "volume " + pvc.claim_name + ": a subPath needs the driver local");
  }
  if (!context.local) {
    co_return api::refuse(Code::InvalidRequest, reason::kVolumeInvalidSubPath,
                          "volume " + pvc.claim_name + ": a subPath needs an engine on the server's own machine");
  }
  co_return co_await context.pool.run([&] { return open_sub_path(root, volume.sub_path, pvc.claim_name); });
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

net::awaitable<Result<void>> prepare_volumes(const VolumeContext& context, const std::vector<api::Volume>& volumes,
                                             DockerVolumes& out) {
  for (const api::Volume& volume : volumes) {
    auto source = volume.host ? co_await host_source(context, volume) : co_await named_source(context, volume, out);
    if (!source) co_return Failure(source.error());
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
