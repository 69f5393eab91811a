#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "http/client.h"

namespace osb::intercept {

// An HTTP proxy of the operator that all intercepted connections go through.
struct UpstreamProxy {
  std::unique_ptr<http::Connector> connector;  // opens connections to the proxy itself
  std::string origin;                          // "http://HOST:PORT"
  std::string authorization;                   // value of Proxy-Authorization, a secret; empty: none
};

// A connection to `host` by way of the proxy: CONNECT, RFC 9110, 9.3.6. Errors name the proxy. `proxy` outlives the
// call.
net::awaitable<Result<std::unique_ptr<http::Transport>>> connect_through(const UpstreamProxy& proxy, std::string host,
                                                                         std::uint16_t port,
                                                                         std::chrono::milliseconds timeout);

}  // namespace osb::intercept
