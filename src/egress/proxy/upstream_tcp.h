#pragma once

#include <string>

#include "async/net.h"
#include "base/error.h"
#include "egress/proxy/endpoint.h"
#include "egress/proxy/upstream_socket.h"

namespace osb::egress {

// Sends one message over a connection of its own and returns the answer. The caller limits the time by cancelling.
net::awaitable<Result<std::string>> exchange_by_tcp(net::any_io_executor executor, Endpoint server,
                                                    SocketIdentity identity, std::string message);

}  // namespace osb::egress
