#pragma once

#include <cstdint>

#include "base/error.h"

namespace osb::kernel {

// Sockets of a network namespace that can live on without a process: connections that are still closing, and sockets
// that a process outside holds.
struct SocketCounts {
  unsigned tcp = 0;
  unsigned time_wait = 0;
  unsigned udp = 0;
  unsigned raw = 0;
  bool none() const { return tcp + time_wait + udp + raw == 0; }
};
Result<SocketCounts> count_sockets(int netns_fd);

// Ends all TCP connections in the namespace at once (their peers get a reset), also those in TIME_WAIT. Needs
// CONFIG_INET_DIAG_DESTROY; Code::Unsupported otherwise.
Result<void> end_tcp_sockets(int netns_fd);

// Ends the TCP connections of the calling thread's namespace to an address (host byte order): for a peer that has gone
// without closing them. Their readers fail at once (ECONNABORTED). Code::Unsupported as above.
Result<void> end_tcp_connections_to(std::uint32_t address);

}  // namespace osb::kernel
