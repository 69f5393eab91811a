#include <algorithm>
#include <fstream>
#include <sstream>
#include <sys/statvfs.h>
#include <sys/utsname.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "api/engine_walls.h"
#include "api/lifecycle_error.h"
#include "base/log.h"
#include "http/url.h"
#include "runtime/docker/container.h"
#include "runtime/docker/container_limits.h"
#include "runtime/docker/docker_context.h"
#include "runtime/docker/engine_json.h"
#include "runtime/docker/images.h"
#include "runtime/docker/parent_cgroup.h"
#include "runtime/docker/sidecar_body.h"

namespace osb::runtime {
namespace {

namespace json = boost::json;

Failure initialization_error(std::string message) {
  return api::refuse(Code::Unavailable, "DOCKER::INITIALIZATION_ERROR", std::move(message));
}

Result<void> check_network_mode(const std::string& network) {
  if (network != "none" && !network.starts_with("container:")) return {};
  return initialization_error("[docker] network_mode = \"" + network +
                              "\": sandboxes could not be reached; use host, bridge or the name of a network");
}

Result<void> check_runtime(const json::value& info, const std::string& runtime) {
  if (runtime.empty()) return {};
  const json::value* runtimes = engine::find(info, {"Runtimes"});
  std::string available;
  if (runtimes != nullptr && runtimes->is_object()) {
    for (const auto& [name, value] : runtimes->get_object()) {
      if (name == runtime) return {};
      available += (available.empty() ? "" : ", ") + std::string(name);
    }
  }
  return initialization_error("[secure_runtime] the engine has no runtime \"" + runtime + "\"; it has: " + available);
}

Result<void> check_execd_files(const std::string& directory) {
  for (const char* name : {"/execd", "/bootstrap.sh"}) {
    if (std::ifstream(directory + name)) continue;
    return initialization_error("[runtime] execd_image: " + directory + name + " cannot be read");
  }
  return {};
}

Result<std::string> read_seccomp(const std::string& profile) {
  if (profile.empty() || profile == "unconfined" || profile == "builtin" || profile.starts_with('{')) return profile;
  std::ifstream file(profile);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) return initialization_error("[docker] seccomp_profile: " + profile + " cannot be read");
  return text.str();
}

// One machine: the same kernel with the same name, reached by a socket of its file system. A server in a container of
// that machine has another name, and an engine in a virtual machine has both.
bool is_local(const json::value& info, const EngineClient& engine) {
  utsname own{};
  ::uname(&own);
  return engine.unix_socket() && engine::text(info, {"KernelVersion"}) == own.release &&
         engine::text(info, {"Name"}) == own.nodename;
}

bool has_security_option(const json::value& info, std::string_view name) {
  return std::ranges::any_of(engine::string_list(info, {"SecurityOptions"}),
                             [&](const std::string& option) { return option.contains(name); });
}

// Rootless engines keep their networks in a namespace of their own. Docker says so among other things, Podman in a
// field of its own.
bool is_rootless(const json::value& info) {
  return engine::flag(info, {"Rootless"}) || has_security_option(info, "name=rootless");
}

// Creates and snapshots leave it free, as uploads do, which execd refuses (create_body.cc).
sys::DiskReserve reserve_of(const json::value& info, const config::DockerSection& docker) {
  sys::DiskReserve out{.bytes = docker.reserve_bytes, .inodes = docker.reserve_inodes};
  out.reason = "DOCKER::DISK_LOW";
  out.section = "[docker]";
  const std::string directory = engine::text(info, {"DockerRootDir"});
  if (struct statvfs found{}; ::statvfs(directory.c_str(), &found) == 0) out.places = {{directory}};
  return out;
}

std::string name_of(const json::value& version, const EngineClient& engine) {
  std::string name = "Docker";
  if (const json::value* components = engine::find(version, {"Components"});
      components != nullptr && components->is_array() && !components->get_array().empty()) {
    const std::string first = engine::text(components->get_array().front(), {"Name"});
    if (!first.empty() && first != "Engine") name = first;
  }
  return name + " " + engine::text(version, {"Version"}) + ", API " + engine.version().to_string();
}

}  // namespace

net::awaitable<Result<EngineFacts>> look_at_engine(EngineClient& engine, const DockerOptions& options) {
  const auto version = co_await engine.negotiate();
  if (!version) co_return initialization_error(version.error().message);
  const auto info = co_await engine.call({.target = "/info"});
  if (!info) co_return initialization_error(info.error().message);
  if (auto ok = check_network_mode(options.docker.network_mode); !ok) co_return Failure(ok.error());
  if (auto ok = check_runtime(*info, options.runtime); !ok) co_return Failure(ok.error());
  EngineFacts out;
  out.name = name_of(*version, engine);
  out.podman = out.name.starts_with("Podman");
  out.platform = {engine::text(*info, {"OSType"}), normal_architecture(engine::text(*info, {"Architecture"}))};
  out.local = is_local(*info, engine);
  out.default_runtime = engine::text(*info, {"DefaultRuntime"});
  const bool rootless = is_rootless(*info);
  out.reaches_addresses = out.local && !rootless;
  out.remaps_users = has_security_option(*info, "name=userns");
  if (out.local) out.reserve = reserve_of(*info, options.docker);
  for (const std::string& wall : api::missing_engine_walls(*info)) {
    log_warn("the container engine lacks a wall", {{"lacks", wall}});
  }
  auto limits = limit_facts(*info, options, out.local, rootless);
  if (!limits) co_return initialization_error(limits.error().message);
  out.limits = std::move(*limits);
  const ParentCgroup parent =
      prepare_parent_cgroup(options.docker.cgroup_parent, *info, out.local && !rootless, out.limits.ceilings);
  out.limits.cgroup_parent = parent.name;
  if (!parent.missing.empty()) log_warn("all sandboxes together have no limit", {{"reason", parent.missing}});
  if (options.execd_image.starts_with('/') && out.local) {
    if (auto ok = check_execd_files(options.execd_image); !ok) co_return Failure(ok.error());
  }
  if (auto ok = check_sidecar_limits(options.egress); !ok) co_return initialization_error(ok.error().message);
  auto seccomp = read_seccomp(options.docker.seccomp_profile);
  if (!seccomp) co_return Failure(seccomp.error());
  out.seccomp = std::move(*seccomp);
  co_return out;
}

std::string container_path(const std::string& id, std::string_view rest) {
  return "/containers/" + http::percent_encode(container_name(id)) + std::string(rest);
}

}  // namespace osb::runtime
