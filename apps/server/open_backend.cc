#include "open_backend.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_future.hpp>

#include "base/log.h"
#include "runtime/docker/docker_backend.h"
#include "runtime/kubernetes/kubernetes_backend.h"
#include "runtime/native/native_backend.h"

namespace osb::server {
namespace {

// `io` runs until the backend is there.
template <typename T>
T run(net::io_context& io, net::awaitable<T> connect) {
  auto connected = net::co_spawn(io, std::move(connect), net::use_future);
  while (connected.wait_for(std::chrono::seconds(0)) != std::future_status::ready) io.run_one();
  io.restart();
  return connected.get();
}

Result<std::unique_ptr<runtime::Backend>> open_docker(net::io_context& io, const config::ServerConfig& config) {
  const auto environment = config::Environment::of_this_process();
  auto backend =
      run(io, runtime::DockerBackend::connect(io.get_executor(), runtime::docker_options(config, environment)));
  if (!backend) return Failure(backend.error());
  log_info("container engine", {{"version", (*backend)->engine_name()}});
  return std::move(*backend);
}

Result<std::unique_ptr<runtime::Backend>> open_kubernetes(net::io_context& io, const config::ServerConfig& config) {
  auto options = runtime::kubernetes_options(config, config::Environment::of_this_process());
  if (!options) return Failure(options.error());
  log_info("cluster", {{"server", options->cluster.server}, {"namespace", options->ns}});
  auto backend = run(io, runtime::KubernetesBackend::connect(io.get_executor(), std::move(*options)));
  if (!backend) return Failure(backend.error());
  return std::move(*backend);
}

}  // namespace

Result<std::unique_ptr<runtime::Backend>> open_backend(net::io_context& io, const config::ServerConfig& config) {
  switch (config.runtime.type) {
    case config::RuntimeType::Docker:
      return open_docker(io, config);
    case config::RuntimeType::Native:
      return std::make_unique<runtime::NativeBackend>(config.native.socket, config.native.request_timeout,
                                                      config.secure_runtime.docker_runtime);
    case config::RuntimeType::Kubernetes:
      return open_kubernetes(io, config);
  }
  return fail(Code::Unsupported, "[runtime] type: unknown");
}

}  // namespace osb::server
