#include "open_backend.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_future.hpp>

#include "base/log.h"
#include "runtime/docker/docker_backend.h"
#include "runtime/native/native_backend.h"

namespace osb::server {
namespace {

Result<std::unique_ptr<runtime::Backend>> open_docker(net::io_context& io, const config::ServerConfig& config) {
  const auto environment = config::Environment::of_this_process();
  auto connected = net::co_spawn(
      io, runtime::DockerBackend::connect(io.get_executor(), runtime::docker_options(config, environment)),
      net::use_future);
  while (connected.wait_for(std::chrono::seconds(0)) != std::future_status::ready) io.run_one();
  io.restart();
  auto backend = connected.get();
  if (!backend) return Failure(backend.error());
  log_info("container engine", {{"version", (*backend)->engine_name()}});
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
      break;
  }
  return fail(Code::Unsupported, "[runtime] type: this build has no kubernetes backend");
}

}  // namespace osb::server
