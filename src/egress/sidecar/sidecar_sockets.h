#pragma once

#include "base/error.h"
#include "base/unique_fd.h"
#include "egress/proxy/endpoint.h"
#include "egress/proxy/upstream_socket.h"

// Sockets of the network namespace that the sidecar shares with its sandbox.
namespace osb::egress {

// For the sandbox's questions, of type SOCK_DGRAM or SOCK_STREAM. A connection there tells the sandbox's gate that the
// rules are in force: make it after they are.
Result<UniqueFd> bind_dns(int type);
// For connections of the sandbox that are intercepted.
Result<UniqueFd> listen_for_interception();
// For the policy API. The packet filter knows its answers by the mark.
Result<UniqueFd> listen_for_api(const Endpoint& endpoint, const SocketIdentity& identity);
// Lets the sandbox's first program start, if it waits (execd/init/policy_gate.h). Blocks; a program of the sandbox that
// has taken the port can make it last some seconds.
void open_gate();

}  // namespace osb::egress
