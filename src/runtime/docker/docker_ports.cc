#include "runtime/docker/docker_ports.h"

#include "base/ports.h"

namespace osb::runtime {
namespace {

std::string host_port(const std::string& host, std::uint16_t port) {
  const bool bare_ipv6 = host.find(':') != host.rfind(':') && !host.starts_with('[');
  return (bare_ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

std::string proxy_path(std::uint16_t port) { return "/proxy/" + std::to_string(port); }

std::string published_host(const DockerContext& context) {
  const DockerOptions& options = context.options;
  if (!context.engine.unix_socket()) return context.engine.remote_host();
  if (!context.facts.local) {
    // In a container of the engine, or beside its virtual machine.
    return options.docker.host_ip.empty() ? "127.0.0.1" : options.docker.host_ip;
  }
  const std::string& address = options.publish_address;
  return address == "0.0.0.0" || address == "::" ? "127.0.0.1" : address;
}

}  // namespace

DockerReach make_reach(const DockerContext& context) {
  return {.host_network = context.options.docker.network_mode == "host",
          .addresses = context.facts.reaches_addresses && context.options.resolve_internal,
          .host_address = context.facts.local ? "127.0.0.1" : context.engine.remote_host(),
          .published_host = published_host(context),
          .public_host = context.options.public_host};
}

bool DockerPorts::is_published(std::uint16_t port) const { return port == kHttpPort && published_.http != 0; }
bool DockerPorts::is_policy_api(std::uint16_t port) const { return port == kEgressPort && published_.has_policy; }

Route DockerPorts::route(std::uint16_t port) const {
  if (reach_->host_network || (reach_->addresses && !address_.empty())) return {host_port(address_, port), ""};
  if (is_policy_api(port)) return {host_port(reach_->published_host, published_.egress), ""};
  if (is_published(port)) return {host_port(reach_->published_host, published_.http), ""};
  return {host_port(reach_->published_host, published_.execd), port == kExecdPort ? "" : proxy_path(port)};
}

ClientRoute DockerPorts::client_route(std::uint16_t port) const {
  if (is_policy_api(port)) return {};
  if (reach_->host_network) {
    return {address_.empty() ? "" : host_port(reach_->public_host, port), port == kExecdPort};
  }
  if (is_published(port)) return {host_port(reach_->public_host, published_.http), false};
  if (published_.execd == 0) return {"", true};
  // Also for execd itself, as the contract has it and clients expect: execd serves /proxy/44772 as its own.
  return {host_port(reach_->public_host, published_.execd) + proxy_path(port), true};
}

}  // namespace osb::runtime
