#pragma once

#include <memory>

#include "async/net.h"
#include "base/unique_fd.h"
#include "http/message.h"
#include "http/server.h"
#include "http/transport.h"

namespace osb::http {

// Serves one open transport until either side ends it, with the limits and hooks of `options`; its `secure`, `is_known`
// and `is_vital` are not asked. `handler` and `options` outlive the call.
net::awaitable<void> serve_transport(std::unique_ptr<Transport> transport, const Handler& handler,
                                     const ServerOptions& options);

// The same for one connected stream socket, with the usual limits. `handler` outlives the call.
net::awaitable<void> serve_connection(UniqueFd socket, const Handler& handler);

}  // namespace osb::http
