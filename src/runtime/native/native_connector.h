#pragma once

#include <memory>
#include <string>

#include "http/client.h"

namespace osb::runtime {

// Opens connections for the proxy. Addresses and Unix sockets as they are; "sandboxd:ID/PORT" asks sandboxd for a
// connected socket to a port of a sandbox, which also works for one without a network: the descriptor comes back over
// the daemon's socket.
std::unique_ptr<http::Connector> make_native_connector(std::string sandboxd_socket);

inline constexpr std::string_view kHandedOver = "sandboxd:";

}  // namespace osb::runtime
