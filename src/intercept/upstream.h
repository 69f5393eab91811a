#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/deadline.h"
#include "http/client.h"
#include "intercept/rules.h"
#include "intercept/upstream_proxy.h"
#include "tls/context.h"
#include "tls/transport.h"

namespace osb::intercept {

// Opens a connection to an address. Empty: an ordinary one. The sidecar marks its sockets, because its rules would
// redirect them back otherwise.
using Dial = std::function<net::awaitable<Result<std::unique_ptr<http::Transport>>>(
    IpAddress address, std::uint16_t port, std::chrono::milliseconds timeout)>;
Dial plain_dial();

// Connections of one sandbox's requests to their hosts: to addresses from Rules::resolve only, and for https with a
// certificate that is good for the host. With a proxy, that one is asked for the host by name, once Rules::resolve has
// found an address that is not closed. `rules` outlives it.
class UpstreamConnector final : public http::Connector {
 public:
  using Connected = Result<std::unique_ptr<http::Transport>>;

  UpstreamConnector(Rules& rules, IpAddress sandbox, Dial dial, std::shared_ptr<const UpstreamProxy> proxy,
                    std::shared_ptr<const tls::ClientContext> trust)
      : rules_(rules), sandbox_(sandbox), dial_(std::move(dial)), proxy_(std::move(proxy)), trust_(std::move(trust)) {}

  // For HTTP/1.1.
  net::awaitable<Connected> connect(std::string origin, std::chrono::milliseconds timeout) override;

  // For a client that offers HTTP/2: a connection to a host that speaks it, or null for a host that was found to speak
  // HTTP/1.1. `also_http1`: the client speaks that as well; otherwise such a host is an error.
  net::awaitable<Connected> connect_http2(std::string origin, bool also_http1, std::chrono::milliseconds timeout);

 private:
  net::awaitable<Connected> connect_as(std::string origin, tls::Offer offer, std::chrono::milliseconds timeout);
  net::awaitable<Connected> connect_any(std::string host, std::uint16_t port, Deadline until);

  // A host that has chosen HTTP/1.1.
  struct Http1Host {
    Deadline ask_again;
    std::unique_ptr<http::Transport> waiting;  // the connection on which it has chosen, for the next request
  };

  Rules& rules_;
  const IpAddress sandbox_;
  const Dial dial_;
  const std::shared_ptr<const UpstreamProxy> proxy_;
  const std::shared_ptr<const tls::ClientContext> trust_;
  std::unordered_map<std::string, Http1Host> http1_hosts_;
};

}  // namespace osb::intercept
