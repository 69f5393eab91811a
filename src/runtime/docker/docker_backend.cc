#include "runtime/docker/docker_backend.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <sys/utsname.h>

#include <boost/json/object.hpp>

#include "api/lifecycle_entrypoint.h"
#include "api/lifecycle_error.h"
#include "base/log.h"
#include "http/url.h"
#include "runtime/docker/engine_json.h"
#include "runtime/labels.h"
#include "tls/connector.h"

namespace osb::runtime {
namespace {

namespace json = boost::json;

Failure initialization_error(std::string message) {
  return api::refuse(Code::Unavailable, "DOCKER::INITIALIZATION_ERROR", std::move(message));
}

std::string path_of(const std::string& id, std::string_view rest = "") {
  return "/containers/" + http::percent_encode(container_name(id)) + std::string(rest);
}

std::string host_port(const std::string& host, std::uint16_t port) {
  const bool bare_ipv6 = host.find(':') != host.rfind(':') && !host.starts_with('[');
  return (bare_ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Result<void> done(const Result<json::value>& answer) {
  if (!answer) return Failure(answer.error());
  return {};
}

}  // namespace

Result<std::unique_ptr<DockerBackend>> DockerBackend::open(net::any_io_executor executor, DockerOptions options) {
  auto engine = EngineClient::open(executor, options.engine, options.docker.api_timeout);
  if (!engine) return initialization_error(engine.error().message);
  return std::unique_ptr<DockerBackend>(new DockerBackend(executor, std::move(options), std::move(*engine)));
}

DockerBackend::DockerBackend(net::any_io_executor executor, DockerOptions options, std::unique_ptr<EngineClient> engine)
    : executor_(executor),
      options_(std::move(options)),
      engine_(std::move(engine)),
      execd_(tls::make_connector(executor)),
      tasks_(executor),
      images_(*engine_, options_.credentials, tasks_, executor),
      stage_(*engine_, images_, options_.execd_image, executor),
      answered_(executor),
      reconnected_(executor),
      look_again_(executor) {}

DockerBackend::~DockerBackend() = default;

net::awaitable<void> DockerBackend::close() { co_await tasks_.close(); }

// ---- start

net::awaitable<Result<std::string>> DockerBackend::connect() {
  const auto version = co_await engine_->negotiate();
  if (!version) co_return initialization_error(version.error().message);
  const auto info = co_await engine_->call({.target = "/info"});
  if (!info) co_return initialization_error(info.error().message);
  if (auto ok = check_engine(*info); !ok) co_return Failure(ok.error());
  if (auto ok = read_seccomp(); !ok) co_return Failure(ok.error());
  co_await check_network();
  if (!network_missing_.empty()) log_warn("network is missing", {{"error", network_missing_}});
  std::string name = "Docker";
  if (const json::value* components = engine::find(*version, {"Components"});
      components != nullptr && components->is_array() && !components->get_array().empty()) {
    const std::string first = engine::text(components->get_array().front(), {"Name"});
    if (!first.empty() && first != "Engine") name = first;
  }
  co_return name + " " + engine::text(*version, {"Version"}) + ", API " + engine_->version().to_string();
}

Result<void> DockerBackend::check_engine(const json::value& info) {
  const std::string& network = options_.docker.network_mode;
  if (network == "none" || network.starts_with("container:")) {
    return initialization_error("[docker] network_mode = \"" + network +
                                "\": sandboxes could not be reached; use host, bridge or the name of a network");
  }
  if (!options_.runtime.empty()) {
    const json::value* runtimes = engine::find(info, {"Runtimes"});
    std::string available;
    bool known = false;
    if (runtimes != nullptr && runtimes->is_object()) {
      for (const auto& [name, value] : runtimes->get_object()) {
        known |= name == options_.runtime;
        available += (available.empty() ? "" : ", ") + std::string(name);
      }
    }
    if (!known) {
      return initialization_error("[secure_runtime] the engine has no runtime \"" + options_.runtime +
                                  "\"; it has: " + available);
    }
  }
  images_.set_engine_platform(
      {engine::text(info, {"OSType"}), normal_architecture(engine::text(info, {"Architecture"}))});
  // One machine: the same kernel with the same name, reached by a socket of its file system. A server in a container of
  // that machine has another name, and an engine in a virtual machine has both.
  utsname own{};
  ::uname(&own);
  local_ = engine_->unix_socket() && engine::text(info, {"KernelVersion"}) == own.release &&
           engine::text(info, {"Name"}) == own.nodename;
  // Rootless engines keep their networks in a namespace of their own.
  const auto security = engine::string_list(info, {"SecurityOptions"});
  // Docker says so among other things, Podman in a field of its own.
  const bool rootless =
      engine::flag(info, {"Rootless"}) ||
      std::ranges::any_of(security, [](const std::string& option) { return option.contains("name=rootless"); });
  reaches_addresses_ = local_ && !rootless;
  note_limits(info, rootless);
  ports_.emplace(options_.publish_address, local_);
  if (options_.execd_image.starts_with('/') && local_) {
    for (const char* name : {"/execd", "/bootstrap.sh"}) {
      if (std::ifstream(options_.execd_image + name)) continue;
      return initialization_error("[runtime] execd_image: " + options_.execd_image + name + " cannot be read");
    }
  }
  return {};
}

// An engine that cannot enforce a limit takes it all the same, and at most warns. Podman says that it can even where it
// cannot: without root, and without the cgroups that a user can be given.
void DockerBackend::note_limits(const json::value& info, bool rootless) {
  const bool undelegated = rootless && engine::text(info, {"CgroupVersion"}) == "1";
  if (undelegated) {
    log_warn("a rootless engine on cgroup v1 can neither limit nor pause sandboxes; use cgroup v2", {});
  }
  const std::pair<const char*, const char*> flags[] = {{"memory", "MemoryLimit"}, {"cpu", "CpuCfsQuota"}};
  for (const auto& [limit, flag] : flags) {
    const json::value* can = engine::find(info, {flag});
    if (undelegated || (can != nullptr && can->is_bool() && !can->get_bool())) not_enforced_.insert(limit);
  }
}

Result<void> DockerBackend::read_seccomp() {
  const std::string& profile = options_.docker.seccomp_profile;
  seccomp_ = profile;
  if (profile.empty() || profile == "unconfined" || profile == "builtin" || profile.starts_with('{')) return {};
  std::ifstream file(profile);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) return initialization_error("[docker] seccomp_profile: " + profile + " cannot be read");
  seccomp_ = text.str();
  return {};
}

Capabilities DockerBackend::capabilities() const {
  Capabilities out;
  out.name = "DOCKER";
  out.daemon = "the container engine";
  out.pause = out.snapshots = out.endpoints = out.log_times = true;
  out.no_network_policy = "the docker backend does not enforce network policies yet";
  out.no_credential_proxy = "the docker backend has no credential proxy yet";
  out.no_secure_access = "secure access needs the kubernetes backend with a gateway";
  out.no_windows = "the docker backend runs linux only";
  return out;
}

Result<void> DockerBackend::check(const api::CreateSandbox& create) const {
  if (auto limits = read_limits(create.resource_limits); !limits) return Failure(limits.error());
  for (const auto& [name, value] : create.resource_limits.value_or(api::StringMap())) {
    if (!not_enforced_.contains(name)) continue;
    return api::invalid_parameter("/resourceLimits/" + name, "the container engine cannot enforce it");
  }
  if (auto words = api::entrypoint_words(create.entrypoint); !words) return Failure(words.error());
  if (!network_missing_.empty())
    return api::refuse(Code::InvalidRequest, api::reason::kInvalidParameter, network_missing_);
  return check_docker_volumes(create.volumes);
}

net::awaitable<Result<void>> DockerBackend::check_volumes(const api::CreateSandbox& create) {
  const VolumeContext context{"", *engine_, pool_, options_.allowed_host_paths, local_};
  co_return co_await look_at_volumes(context, create.volumes);
}

// ---- one sandbox

net::awaitable<Result<Container>> DockerBackend::inspect_container(std::string id) {
  const auto answer = co_await engine_->call({.target = path_of(id, "/json")});
  if (!answer) co_return Failure(answer.error());
  Container container = read_container(*answer, options_.docker.network_mode);
  if (container.sandbox != id) co_return fail(Code::NotFound, container_name(id) + " is not a sandbox");
  co_return container;
}

Instance DockerBackend::instance_of(const Known& known) const {
  Instance out = to_instance(known.container);
  if (out.state == InstanceState::Running && !known.answered) {
    out.state = InstanceState::Creating;
    out.message = "waiting for execd";
  }
  if (host_network()) out.address = local_ ? "127.0.0.1" : engine_->remote_host();
  return out;
}

void DockerBackend::note(Container container) {
  ports_->note(container.execd_host_port);
  ports_->note(container.http_host_port);
  Known& known = known_[container.sandbox];
  if (known.container.id != container.id) known.answered = false;
  if (container.status == "paused") known.answered = true;
  known.container = std::move(container);
}

void DockerBackend::forget(const std::string& id) {
  const auto found = known_.find(id);
  if (found == known_.end()) return;
  ports_->give_back(found->second.container.execd_host_port);
  ports_->give_back(found->second.container.http_host_port);
  known_.erase(found);
}

net::awaitable<Result<Instance>> DockerBackend::inspect(std::string id) {
  auto container = co_await inspect_container(id);
  if (!container) co_return Failure(container.error());
  if (const auto known = known_.find(id); known != known_.end() && known->second.container.id == container->id) {
    note(std::move(*container));
    co_return instance_of(known_[id]);
  }
  co_return to_instance(*container);
}

net::awaitable<Result<std::vector<Instance>>> DockerBackend::list() {
  if (auto taken = co_await take_stock(); !taken) co_return Failure(taken.error());
  std::vector<Instance> out;
  for (const auto& [id, known] : known_) {
    if (!creating_.contains(id) && known.seen()) out.push_back(instance_of(known));
  }
  co_return out;
}

net::awaitable<Result<void>> DockerBackend::pause(std::string id) { return set_paused(std::move(id), true); }
net::awaitable<Result<void>> DockerBackend::resume(std::string id) { return set_paused(std::move(id), false); }

net::awaitable<Result<void>> DockerBackend::set_paused(std::string id, bool paused) {
  const auto answer = co_await engine_->call({.method = "POST", .target = path_of(id, paused ? "/pause" : "/unpause")});
  auto container = co_await inspect_container(id);
  // Docker calls a second pause a conflict or an internal error; what counts is how it is now.
  const bool is_so = container && container->status == (paused ? "paused" : "running");
  if (!answer && !is_so) co_return Failure(answer.error());
  if (container) note(std::move(*container));
  if (const auto known = known_.find(id); known != known_.end() && observer_ != nullptr) {
    observer_->on_change(instance_of(known->second));
  }
  co_return Result<void>();
}

net::awaitable<Result<void>> DockerBackend::remove(std::string id) {
  if (const auto found = creating_.find(id); found != creating_.end()) {
    const std::shared_ptr<Creation> creation = found->second;
    creation->given_up = true;
    creation->changed.notify_all();
    if (!co_await creation->over.wait()) co_return fail(Code::Cancelled, "the server is ending");
  }
  std::vector<std::string> volumes;
  if (const auto known = known_.find(id); known != known_.end() && known->second.seen()) {
    volumes = known->second.container.managed_volumes();
  } else if (const auto container = co_await inspect_container(id)) {
    volumes = container->managed_volumes();
  }
  // A create that failed half-way may have made volumes and no container.
  if (const auto left = leftovers_.find(id); left != leftovers_.end()) volumes = left->second.volumes.created;
  const auto removed = co_await engine_->call({.method = "DELETE", .target = path_of(id, "?force=1&v=1")});
  if (!removed && removed.error().code == Code::Conflict) {
    // Somebody else's removal is under way; this returns when it is over, or finds nothing any more.
    const auto gone = co_await engine_->call({.method = "POST", .target = path_of(id, "/wait?condition=removed")});
    if (!gone && gone.error().code != Code::NotFound) co_return done(gone);
  } else if (!removed && removed.error().code != Code::NotFound) {
    co_return done(removed);
  }
  leftovers_.erase(id);
  forget(id);
  co_await remove_managed_volumes(*engine_, std::move(volumes));
  co_return Result<void>();
}

// ---- how to reach one

std::string DockerBackend::published_host() const {
  if (!local_ && engine_->unix_socket()) {
    // In a container of the engine, or beside its virtual machine.
    return options_.docker.host_ip.empty() ? "127.0.0.1" : options_.docker.host_ip;
  }
  if (!engine_->unix_socket()) return engine_->remote_host();
  const std::string& address = options_.publish_address;
  return address == "0.0.0.0" || address == "::" ? "127.0.0.1" : address;
}

std::string DockerBackend::origin(const Instance& instance, std::uint16_t port) const {
  if (host_network() || (reaches_addresses_ && !instance.address.empty())) return host_port(instance.address, port);
  const bool http = port == kHttpPort && instance.http_host_port != 0;
  return host_port(published_host(), http ? instance.http_host_port : instance.execd_host_port);
}

std::string DockerBackend::origin_path(const Instance& instance, std::uint16_t port) const {
  if (host_network() || (reaches_addresses_ && !instance.address.empty())) return "";
  if (port == kExecdPort || (port == kHttpPort && instance.http_host_port != 0)) return "";
  return "/proxy/" + std::to_string(port);
}

std::string DockerBackend::endpoint(const Instance& instance, std::uint16_t port) const {
  if (host_network()) return instance.address.empty() ? "" : host_port(options_.public_host, port);
  if (port == kHttpPort && instance.http_host_port != 0)
    return host_port(options_.public_host, instance.http_host_port);
  if (instance.execd_host_port == 0) return "";
  // Also for execd itself, as the contract has it and clients expect: execd serves /proxy/44772 as its own.
  return host_port(options_.public_host, instance.execd_host_port) + "/proxy/" + std::to_string(port);
}

bool DockerBackend::through_execd(const Instance& instance, std::uint16_t port) const {
  if (port == kExecdPort) return true;
  return !host_network() && !(port == kHttpPort && instance.http_host_port != 0);
}

std::unique_ptr<http::Connector> DockerBackend::connector() { return tls::make_connector(executor_); }

// ---- what it does

net::awaitable<Result<ResourceUse>> DockerBackend::stats(std::string id) {
  // Without one-shot the engine takes two samples, a second apart.
  const char* how = engine_->version().minor >= 41 ? "/stats?stream=false&one-shot=true" : "/stats?stream=false";
  const auto answer = co_await engine_->call({.target = path_of(id, how)});
  if (!answer) co_return Failure(answer.error());
  const auto at = [&](engine::Path path) {
    return static_cast<std::uint64_t>(std::max<std::int64_t>(engine::number(*answer, path), 0));
  };
  ResourceUse out;
  out.cpu_usec = at({"cpu_stats", "cpu_usage", "total_usage"}) / 1000;
  out.memory_bytes = at({"memory_stats", "usage"});
  out.memory_peak_bytes = std::max(at({"memory_stats", "max_usage"}), out.memory_bytes);
  // Without a limit of its own the engine reports the machine's memory.
  const auto known = known_.find(id);
  const std::uint64_t limit = at({"memory_stats", "limit"});
  if (limit > 0 && known != known_.end() && known->second.container.memory_limit > 0) out.memory_limit_bytes = limit;
  out.pids = at({"pids_stats", "current"});
  out.oom_kills = known != known_.end() && known->second.container.out_of_memory ? 1 : 0;
  co_return out;
}

// ---- images are the engine's business

net::awaitable<Result<std::vector<api::StoredImage>>> DockerBackend::list_images() {
  co_return fail(Code::Unsupported, "images belong to the container engine");
}
net::awaitable<Result<api::StoredImage>> DockerBackend::pull_image(api::PullImage,
                                                                   std::function<void(const api::PullProgress&)>) {
  co_return fail(Code::Unsupported, "images belong to the container engine");
}
net::awaitable<Result<std::vector<api::StoredImage>>> DockerBackend::load_image(std::shared_ptr<http::BodySource>,
                                                                                std::string) {
  co_return fail(Code::Unsupported, "images belong to the container engine");
}
net::awaitable<Result<void>> DockerBackend::remove_image(std::string, bool) {
  co_return fail(Code::Unsupported, "images belong to the container engine");
}

}  // namespace osb::runtime
