#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <unordered_map>
#include <vector>

#include "async/task_group.h"
#include "base/unique_fd.h"
#include "http/client.h"
#include "http/splice.h"
#include "intercept/first_bytes.h"
#include "intercept/h2_relay.h"
#include "intercept/opened_connection.h"
#include "intercept/rules.h"
#include "intercept/upstream.h"
#include "tls/leaf_contexts.h"

namespace osb::intercept {

struct InterceptorOptions {
  std::chrono::milliseconds patience{10'000};  // for a client's first bytes
  std::chrono::milliseconds handshake{10'000};
  std::chrono::milliseconds connect{15'000};  // of spliced connections, and to hosts with HTTP/2
  std::size_t connections = 8192;             // of all sandboxes; more are refused
  std::size_t per_sandbox = 1024;
  Dial dial = plain_dial();
  std::shared_ptr<const UpstreamProxy> proxy = {};  // for all connections; none: they go straight to their hosts
  // Where a connection comes from and wants to go. Tests without redirection put their own.
  std::function<Result<Flow>(int socket)> flow_of = intercept::flow_of;
};

// Takes connections of sandboxes that were redirected to it. It reads who they are for, and splices them through
// untouched, refuses them, or opens them and judges each request: Rules decides. On one executor. References outlive
// it; close() before it goes.
class Interceptor {
 public:
  Interceptor(net::any_io_executor executor, Rules& rules, tls::LeafContexts& leaves,
              std::shared_ptr<const tls::ClientContext> trust, InterceptorOptions options = {});
  ~Interceptor();
  Interceptor(const Interceptor&) = delete;
  Interceptor& operator=(const Interceptor&) = delete;

  // May be called for several sockets (IPv4 and IPv6).
  void listen(UniqueFd socket);
  // The sandbox is gone, and its address may be given to another one: ends all its connections.
  void forget(const IpAddress& sandbox);
  net::awaitable<void> close();

  std::size_t open_connections() const { return open_; }

 private:
  struct Peer;  // the state of one sandbox
  struct AddressHash {
    std::size_t operator()(const IpAddress& address) const;
  };
  class Place;  // of one connection in the count

  net::awaitable<void> accept(UniqueFd socket);
  net::awaitable<void> sweep();
  net::awaitable<void> serve(UniqueFd socket, Flow flow, Peer& peer);
  net::awaitable<Result<std::unique_ptr<http::Transport>>> connect_to_server(Flow flow,
                                                                             std::optional<std::string> name);
  net::awaitable<void> splice(std::unique_ptr<http::Transport> client, Flow flow, FirstBytes first);
  net::awaitable<void> open(std::unique_ptr<http::Transport> client, Flow flow, FirstBytes first, Peer& peer);
  static net::awaitable<void> serve_http1(std::unique_ptr<http::Transport> client, OpenedConnection& connection);
  net::awaitable<void> serve_http2(std::unique_ptr<http::Transport> client, OpenedConnection& connection,
                                   H2Relay::Upstream upstream, Peer& peer);
  static net::awaitable<void> refuse(std::unique_ptr<http::Transport> client, Protocol protocol, int status,
                                     std::string why);
  Peer& peer_of(const IpAddress& sandbox);
  net::awaitable<void> end(std::shared_ptr<Peer> peer);

  net::any_io_executor executor_;
  Rules& rules_;
  tls::LeafContexts& leaves_;
  std::shared_ptr<const tls::ClientContext> trust_;
  const InterceptorOptions options_;
  http::PipePool pipes_;
  std::unordered_map<IpAddress, std::shared_ptr<Peer>, AddressHash> peers_;
  std::vector<std::shared_ptr<Peer>> leaving_;  // of sandboxes that are gone, until their connections have ended
  std::size_t open_ = 0;
  bool sweeping_ = false;
  TaskGroup tasks_;
};

}  // namespace osb::intercept
