#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "http/client.h"
#include "intercept/rules.h"
#include "intercept/upstream_proxy.h"
#include "tls/context.h"

namespace osb::intercept {

// Opens a connection to an address. Empty: an ordinary one. The sidecar marks its sockets, because its rules would
// redirect them back otherwise.
using Dial = std::function<net::awaitable<Result<std::unique_ptr<http::Transport>>>(
    IpAddress address, std::uint16_t port, std::chrono::milliseconds timeout)>;
Dial plain_dial();

// Connections of one sandbox's requests to their hosts, for http::Client: to addresses from Rules::resolve only, and
// for https with a certificate that is good for the host. With a proxy, that one is asked for the host by name, once
// Rules::resolve has found an address that is not closed. `rules` outlives it.
std::unique_ptr<http::Connector> make_upstream_connector(Rules& rules, IpAddress sandbox, Dial dial,
                                                         std::shared_ptr<const UpstreamProxy> proxy,
                                                         std::shared_ptr<const tls::ClientContext> trust);

}  // namespace osb::intercept
