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

// Ports of the engine's host that lead to one sandbox; 0 is none.
struct HostPorts {
  std::uint16_t execd = 0, http = 0;
  std::uint16_t egress = 0;  // to its policy API
  bool has_policy = false;   // port 18080 is its policy API, in the sidecar, and not a port of the sandbox
};

// Ports of one container: at its address, or at the two ports that the engine publishes for it. Ports that are not
// published go through execd. The policy API never does: its token must not pass through the sandbox.
class DockerPorts final : public PortMap {
 public:
  // `address` may be "".
  DockerPorts(std::shared_ptr<const DockerReach> reach, std::string address, HostPorts published)
      : reach_(std::move(reach)), address_(std::move(address)), published_(published) {}

  Route route(std::uint16_t port) const override;
  ClientRoute client_route(std::uint16_t port) const override;

 private:
  bool is_published(std::uint16_t port) const;
  bool is_policy_api(std::uint16_t port) const;

  std::shared_ptr<const DockerReach> reach_;
  std::string address_;
  HostPorts published_;
};

}  // namespace osb::runtime
