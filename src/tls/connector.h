#pragma once

#include <memory>

#include "http/client.h"
#include "tls/context.h"

namespace osb::tls {

// A connector for http::Client that knows names and TLS. Origins: "https://host:port", "http://host:port", "host:port"
// (plain) and "unix:/path"; without a port 443 or 80. A name's addresses are tried in their order, each with its share
// of the time, and the one that answers gets all that is left.
//
// `context` null: the system's roots, read with the first https origin. `executor` is the one connect() runs on.
std::unique_ptr<http::Connector> make_connector(net::any_io_executor executor,
                                                std::shared_ptr<const ClientContext> context = nullptr);

}  // namespace osb::tls
