#pragma once

#include <filesystem>

#include "base/error.h"
#include "base/unique_fd.h"
#include "sandboxd/network/network_config.h"

namespace osb::sandboxd {

// The sockets where questions of sandboxes for names arrive, on one port of the gateway's address, and intercepted
// connections on another. They may be made
// before the address exists, and live as long as the daemon: questions wait in them while the egress process restarts.
struct EgressSockets {
  UniqueFd udp;
  UniqueFd tcp;
  UniqueFd intercept;  // intercepted connections, on a port of its own
  std::uint16_t port = 0, intercept_port = 0;
};
Result<EgressSockets> bind_egress_sockets(const NetworkConfig& config);

// The error says why a process without privilege cannot execute the program, and what to do.
Result<void> check_egress_program(const std::filesystem::path& program);

}  // namespace osb::sandboxd
