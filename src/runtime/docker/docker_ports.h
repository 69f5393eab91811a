#pragma once

#include <memory>
#include <string>

#include "runtime/docker/docker_context.h"
#include "runtime/instance.h"

namespace osb::runtime {

// Where the containers of one engine answer.
struct DockerReach {
  bool host_network = false;   // containers use the engine's own network
  bool addresses = false;      // their addresses can be reached from here
  std::string host_address;    // of the engine, for host_network
  std::string published_host;  // where the server finds published ports
  std::string public_host;     // where clients find them
};
DockerReach make_reach(const DockerContext& context);

// Ports of one container: at its address, or at the two ports that the engine publishes for it. Ports that are not
// published go through execd.
class DockerPorts final : public PortMap {
 public:
  // `address` may be "", ports of the host 0.
  DockerPorts(std::shared_ptr<const DockerReach> reach, std::string address, std::uint16_t execd_host_port,
              std::uint16_t http_host_port)
      : reach_(std::move(reach)), address_(std::move(address)), execd_(execd_host_port), http_(http_host_port) {}

  Route route(std::uint16_t port) const override;
  ClientRoute client_route(std::uint16_t port) const override;

 private:
  bool is_published(std::uint16_t port) const;

  std::shared_ptr<const DockerReach> reach_;
  std::string address_;
  std::uint16_t execd_, http_;
};

}  // namespace osb::runtime
