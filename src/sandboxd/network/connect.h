#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "base/unique_fd.h"

namespace osb::sandboxd {

// A TCP connection to 127.0.0.1:port made inside the network namespace: reaches every port of a sandbox, with any
// network mode and firewall. Non-blocking, close-on-exec, Nagle off. Blocks up to `timeout`; a port without a listener
// is Code::Unavailable at once, a full backlog Code::Timeout. The caller's own namespace does not change: the socket is
// made by a thread that ends with this call.
Result<UniqueFd> connect_in_namespace(int netns_fd, std::uint16_t port, std::chrono::milliseconds timeout);

// The same to an address that the host's own network reaches ("10.90.0.2").
Result<UniqueFd> connect_to_address(const std::string& address, std::uint16_t port, std::chrono::milliseconds timeout);

}  // namespace osb::sandboxd
