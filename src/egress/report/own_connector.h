#pragma once

#include <memory>

#include "egress/proxy/upstreams.h"
#include "http/client.h"
#include "intercept/upstream.h"

namespace osb::egress {

// Connections of this process itself, over IPv4: marked, so that no policy judges them, to names that its own name
// servers know. `roots` are certificates (PEM) for https origins; empty: the system's, read with the first one.
// `upstreams` outlives it.
std::unique_ptr<http::Connector> make_own_connector(net::any_io_executor executor, Upstreams& upstreams,
                                                    SocketIdentity identity, std::string roots = {});
// The same for http origins only.
std::unique_ptr<http::Connector> make_own_plain_connector(net::any_io_executor executor, Upstreams& upstreams,
                                                          SocketIdentity identity);
// The operator's proxy for intercepted connections, at `origin`; the authorization may be empty.
std::shared_ptr<const intercept::UpstreamProxy> make_own_proxy(net::any_io_executor executor, Upstreams& upstreams,
                                                               SocketIdentity identity, std::string origin,
                                                               std::string authorization);

// The same for addresses that an interceptor connects to.
intercept::Dial make_own_dial(SocketIdentity identity);

}  // namespace osb::egress
