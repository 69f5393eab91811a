#include "runtime/docker/docker_network.h"

#include "http/url.h"

namespace osb::runtime {

bool DockerNetwork::is_user_defined() const {
  const std::string& name = context_.options.docker.network_mode;
  return name != "host" && name != "bridge";
}

net::awaitable<void> DockerNetwork::look() {
  if (!is_user_defined()) co_return;
  const std::string& name = context_.options.docker.network_mode;
  const auto found = co_await context_.engine.call({.target = "/networks/" + http::percent_encode(name)});
  missing_.clear();
  if (!found && found.error().code == Code::NotFound) {
    missing_ = "[docker] network_mode: the engine has no network \"" + name + "\"";
  }
}

}  // namespace osb::runtime
