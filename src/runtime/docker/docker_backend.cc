#include "runtime/docker/docker_backend.h"

#include "api/lifecycle_error.h"
#include "base/log.h"
#include "tls/connector.h"

namespace osb::runtime {
namespace {

Capabilities docker_capabilities(const EngineFacts& facts, const DockerOptions& options) {
  Capabilities out;
  out.backend = "DOCKER";
  out.daemon = "the container engine";
  out.public_endpoints = true;
  if (options.docker.network_mode == "host") {
    out.no_secure_access = "with [docker] network_mode = \"host\" the ports of sandboxes are open to every program";
  }
  out.no_windows = "the docker backend runs linux only";
  out.max_sandboxes = facts.limits.ceilings.max_sandboxes;
  return out;
}

}  // namespace

net::awaitable<Result<std::unique_ptr<DockerBackend>>> DockerBackend::connect(net::any_io_executor executor,
                                                                              DockerOptions options,
                                                                              const Clock& clock) {
  auto engine = EngineClient::open(executor, options.engine, options.docker.api_timeout);
  if (!engine) {
    co_return api::refuse(Code::Unavailable, "DOCKER::INITIALIZATION_ERROR", engine.error().message);
  }
  auto facts = co_await look_at_engine(**engine, options);
  if (!facts) co_return Failure(facts.error());
  std::unique_ptr<DockerBackend> out(
      new DockerBackend(executor, std::move(options), std::move(*engine), std::move(*facts), clock));
  co_await out->network_.look();
  if (const std::string& missing = out->network_.missing(); !missing.empty()) {
    log_warn("network is missing", {{"error", missing}});
  }
  co_return out;
}

DockerBackend::DockerBackend(net::any_io_executor executor, DockerOptions options, std::unique_ptr<EngineClient> engine,
                             EngineFacts facts, const Clock& clock)
    : capabilities_(docker_capabilities(facts, options)),
      options_(std::move(options)),
      facts_(std::move(facts)),
      engine_(std::move(engine)),
      tasks_(executor),
      context_{executor, options_, facts_, *engine_, clock, pool_, tasks_},
      ports_(options_.publish_address, facts_.local, {options_.docker.port_range_min, options_.docker.port_range_max}),
      images_(*engine_, options_.credentials, tasks_, executor),
      execd_volume_(context_, images_),
      network_(context_, capabilities_.open_networks),
      sidecars_(context_, images_),
      containers_(context_, ports_),
      creates_(context_, containers_, images_, execd_volume_, ports_, network_, sidecars_),
      snapshots_(context_, containers_),
      logs_(*engine_, containers_, options_.log_silence),
      watch_(context_, {containers_, creates_, snapshots_, network_, sidecars_, images_, execd_volume_}),
      lifecycle_(context_, containers_, creates_, watch_, network_, sidecars_) {
  images_.set_engine_platform(facts_.platform);
  capabilities_.no_network_policy = sidecars_.missing();
}

std::unique_ptr<http::Connector> DockerBackend::connector() { return tls::make_connector(context_.executor); }

}  // namespace osb::runtime
