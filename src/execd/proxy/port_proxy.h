#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "async/net.h"
#include "http/client.h"
#include "http/message.h"

namespace osb::execd {

// "/proxy/8080/a/b?c=d" -> 8080 and "/a/b?c=d", still encoded as it came.
struct ProxyPath {
  std::optional<std::uint16_t> port;  // nothing: the segment is no port number
  std::string target;
};
// Nothing when the target is not below /proxy.
std::optional<ProxyPath> parse_proxy_path(std::string_view target);

// X-Forwarded-For as the contract defines it: the first address of the chain that is there, else X-Real-IP, else the
// peer.
std::string forwarded_for(const http::Request& request);

// A server in the sandbox may listen on either loopback address; a client that asks for a port does not know which.
net::awaitable<Result<std::unique_ptr<http::Transport>>> connect_loopback(std::uint16_t port,
                                                                          std::chrono::milliseconds timeout);

// Forwards /proxy/PORT/... to 127.0.0.1:PORT, or to [::1]:PORT where nothing listens on the first; HTTP, streams and
// upgraded connections. Requests to one of our own ports are served by `own` as if they had come without the prefix,
// however often it is repeated, and so is everything that is not below /proxy. One thread; outlives its requests.
class PortProxy {
 public:
  PortProxy(net::any_io_executor executor, http::Handler own);
  ~PortProxy();
  PortProxy(const PortProxy&) = delete;
  PortProxy& operator=(const PortProxy&) = delete;

  void add_own_port(std::uint16_t port) { own_ports_.insert(port); }

  net::awaitable<http::Response> handle(http::Request& request);

 private:
  net::awaitable<http::Response> forward(http::Request& request, std::uint16_t port, std::string target);
  void close_idle_later();

  http::Handler own_;
  http::Client client_;
  std::set<std::uint16_t> own_ports_;
  bool used_ = false;  // since the timer was last looked at
  struct Timer;
  std::unique_ptr<Timer> timer_;
};

}  // namespace osb::execd
