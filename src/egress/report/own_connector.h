#pragma once

#include <memory>

#include "egress/proxy/upstreams.h"
#include "http/client.h"
#include "intercept/upstream.h"

namespace osb::egress {

// Connections of this process itself, over IPv4: marked, so that no policy judges them, to names that its own name
// servers know. `tls`: https origins are taken as well; the system's roots are read with the first one. `upstreams`
// outlives it.
std::unique_ptr<http::Connector> make_own_connector(net::any_io_executor executor, Upstreams& upstreams,
                                                    SocketIdentity identity, bool tls);

// The same for addresses that an interceptor connects to.
intercept::Dial make_own_dial(SocketIdentity identity);

}  // namespace osb::egress
