#pragma once

#include <functional>
#include <memory>
#include <string>

#include "http/client.h"
#include "http/url.h"
#include "tls/context.h"

namespace osb::tls {

// Decides whether a connection may be made; called with every address that the origin's host has, before the first
// packet goes to one of them. An error refuses the connection and is what connect() returns.
using AddressGuard = std::function<Result<void>(const http::Url& origin, const std::string& address)>;

// A connector for http::Client that knows names and TLS. Origins: "https://host:port", "http://host:port", "host:port"
// (plain) and "unix:/path"; without a port 443 or 80. A name's addresses are tried in their order, each with its share
// of the time, and the one that answers gets all that is left.
//
// `context` null: the system's roots, read with the first https origin. `executor` is the one connect() runs on.
// `guard` null: every address will do. Connections to Unix sockets do not ask it.
std::unique_ptr<http::Connector> make_connector(net::any_io_executor executor,
                                                std::shared_ptr<const ClientContext> context = nullptr,
                                                AddressGuard guard = nullptr);

}  // namespace osb::tls
