#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "async/net.h"
#include "base/error.h"
#include "base/unique_fd.h"

namespace osb::sandboxd {

// Begins a TCP connection to 127.0.0.1:port inside the network namespace: it reaches every port of a sandbox, with any
// network mode and firewall. Non-blocking, close-on-exec, Nagle off. Returns at once; a port without a listener is
// Code::Unavailable. The caller's own namespace does not change: the socket is made by a thread that ends with this
// call.
Result<UniqueFd> begin_connect_in_namespace(int netns_fd, std::uint16_t port);

// The same to an address that the host's own network reaches ("10.90.0.2").
Result<UniqueFd> begin_connect_to_address(const std::string& address, std::uint16_t port);

// Until the connection is there. A full backlog is Code::Timeout: the sandbox decides how long this takes, so it waits
// on the loop and holds no thread.
net::awaitable<Result<UniqueFd>> finish_connect(UniqueFd begun, std::uint16_t port, std::chrono::milliseconds timeout);

}  // namespace osb::sandboxd
