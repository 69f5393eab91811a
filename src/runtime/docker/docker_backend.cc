#include "runtime/docker/docker_backend.h"

#include "api/lifecycle_error.h"
#include "base/log.h"
#include "tls/connector.h"

namespace osb::runtime {
namespace {

Capabilities docker_capabilities(const EngineFacts& facts) {
  Capabilities out;
  out.backend = "DOCKER";
  out.daemon = "the container engine";
  out.public_endpoints = true;
  out.no_network_policy = "the docker backend does not enforce network policies yet";
  out.no_credential_proxy = "the docker backend has no credential proxy yet";
  out.no_secure_access = "secure access needs the kubernetes backend with a gateway";
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
    : capabilities_(docker_capabilities(facts)),
      options_(std::move(options)),
      facts_(std::move(facts)),
      engine_(std::move(engine)),
      tasks_(executor),
      context_{executor, options_, facts_, *engine_, clock, pool_, tasks_},
      ports_(options_.publish_address, facts_.local),
      images_(*engine_, options_.credentials, tasks_, executor),
      execd_volume_(*engine_, images_, options_.execd_image, executor),
      network_(context_),
      containers_(context_, ports_),
      creates_(context_, containers_, images_, execd_volume_, ports_, network_),
      snapshots_(context_, containers_),
      logs_(*engine_),
      watch_(context_, {containers_, creates_, snapshots_, network_, images_, execd_volume_}),
      lifecycle_(context_, containers_, creates_, watch_, network_) {
  images_.set_engine_platform(facts_.platform);
}

std::unique_ptr<http::Connector> DockerBackend::connector() { return tls::make_connector(context_.executor); }

}  // namespace osb::runtime
