#include "intercept/interceptor.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <utility>

#include "async/timer.h"
#include "base/log.h"
#include "http/linger.h"
#include "http/listener.h"
#include "http/prefixed_transport.h"
#include "http/serve_connection.h"
#include "tls/transport.h"

namespace osb::intercept {
namespace {

using http::Transport;

constexpr std::chrono::milliseconds kRetryAccept{100};
constexpr std::chrono::seconds kSweep{30};
// As many as programs use side by side, or each request beyond them would make a new connection.
constexpr http::Client::Options kPool{
    .idle_per_origin = 64, .idle_total = 128, .idle = std::chrono::milliseconds(60'000)};
// The memory that a sandbox can make HTTP/2 hold: two windows per connection, large ones for the first few only.
constexpr std::size_t kWideConnections = 16;
constexpr std::uint32_t kWideWindow = 1024 * 1024;
// A fatal alert, access_denied (RFC 8446, 6.2), in a record of its own.
constexpr std::string_view kAccessDenied("\x15\x03\x03\x00\x02\x02\x31", 7);

// A peer that has vanished without a word is noticed after two minutes, in an idle connection too.
void keep_alive(int socket) {
  const int on = 1, idle = 60, interval = 15, count = 4;
  ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
}

std::string refusal(int status, std::string why) {
  if (!why.ends_with('\n')) why += '\n';
  return "HTTP/1.1 " + std::to_string(status) + " " + std::string(http::reason_phrase(status)) +
         "\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: " + std::to_string(why.size()) +
         "\r\nConnection: close\r\n\r\n" + why;
}

}  // namespace

struct Interceptor::Peer {
  Peer(net::any_io_executor executor, std::unique_ptr<UpstreamConnector> made)
      : connector(*made), client(std::move(made), kPool), connections(std::move(executor)) {}

  UpstreamConnector& connector;  // of `client`
  // One pool per sandbox: a connection that one sandbox has used never serves another.
  http::Client client;
  std::size_t wide = 0;  // connections of HTTP/2 with large windows
  TaskGroup connections;
};

class Interceptor::Place {
 public:
  explicit Place(std::size_t& count) : count_(count) { ++count_; }
  ~Place() { --count_; }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

 private:
  std::size_t& count_;
};

std::size_t Interceptor::AddressHash::operator()(const IpAddress& address) const {
  return std::hash<std::string_view>()(
      {reinterpret_cast<const char*>(address.bytes.data()), address.v6 ? std::size_t{16} : std::size_t{4}});
}

Interceptor::Interceptor(net::any_io_executor executor, Rules& rules, tls::LeafContexts& leaves,
                         std::shared_ptr<const tls::ClientContext> trust, InterceptorOptions options)
    : executor_(executor),
      rules_(rules),
      leaves_(leaves),
      trust_(std::move(trust)),
      options_(std::move(options)),
      tasks_(executor) {}

Interceptor::~Interceptor() = default;

void Interceptor::listen(UniqueFd socket) {
  tasks_.spawn("accept redirected connections", accept(std::move(socket)));
  if (!std::exchange(sweeping_, true)) tasks_.spawn("close idle upstream connections", sweep());
}

// Connections refer to their peer and to this object, so they end before either goes.
net::awaitable<void> Interceptor::close() {
  co_await tasks_.close();
  for (auto& [address, peer] : std::exchange(peers_, {})) leaving_.push_back(peer);
  for (const auto& peer : std::exchange(leaving_, {})) co_await peer->connections.close();
}

void Interceptor::forget(const IpAddress& sandbox) {
  auto gone = peers_.extract(sandbox);
  if (gone.empty()) return;
  leaving_.push_back(gone.mapped());
  tasks_.spawn("end connections of a sandbox", end(std::move(gone.mapped())));
}

net::awaitable<void> Interceptor::end(std::shared_ptr<Peer> peer) {
  co_await peer->connections.close();
  std::erase(leaving_, peer);
}

Interceptor::Peer& Interceptor::peer_of(const IpAddress& sandbox) {
  auto& peer = peers_[sandbox];
  if (!peer) {
    peer = std::make_shared<Peer>(
        executor_, std::make_unique<UpstreamConnector>(rules_, sandbox, options_.dial, options_.proxy, trust_));
  }
  return *peer;
}

net::awaitable<void> Interceptor::sweep() {
  while (co_await sleep_for(kSweep)) {
    for (auto& [address, peer] : peers_) peer->client.sweep();
  }
}

net::awaitable<void> Interceptor::accept(UniqueFd socket) {
  http::Listener listener(executor_, std::move(socket));
  for (;;) {
    auto connection = co_await listener.accept();
    if (!connection && connection.error().code == Code::Unavailable) {
      if (!co_await sleep_for(kRetryAccept)) co_return;
      continue;
    }
    if (!connection) co_return;
    const auto flow = options_.flow_of(connection->get());
    if (!flow || open_ >= options_.connections) continue;  // closed
    Peer& peer = peer_of(flow->sandbox);
    if (peer.connections.size() >= options_.per_sandbox) continue;
    peer.connections.spawn("redirected connection", serve(std::move(*connection), *flow, peer));
  }
}

net::awaitable<void> Interceptor::serve(UniqueFd socket, Flow flow, Peer& peer) {
  const Place place(open_);
  keep_alive(socket.get());
  auto client = http::make_plain_transport(executor_, std::move(socket));
  FirstBytes first = co_await read_first_bytes(*client, options_.patience);
  if (first.kind == FirstBytes::Kind::Ended) co_return;
  if (first.kind == FirstBytes::Kind::Bad) {
    rules_.failed(flow, first.name.value_or(""), first.why);
    co_return co_await refuse(std::move(client), first.protocol, 400, std::move(first.why));
  }
  Admission admission = rules_.admit(flow, first.protocol, first.name);
  switch (admission.kind) {
    case Admission::Kind::Refuse:
      co_return co_await refuse(std::move(client), first.protocol, 403, std::move(admission.why));
    case Admission::Kind::Splice:
      co_return co_await splice(std::move(client), flow, std::move(first));
    case Admission::Kind::Open:
      co_return co_await open(std::move(client), flow, std::move(first), peer);
  }
}

net::awaitable<void> Interceptor::refuse(std::unique_ptr<Transport> client, Protocol protocol, int status,
                                         std::string why) {
  client->set_timeout(std::chrono::seconds(2));
  if (protocol == Protocol::Other) co_return;
  const std::string answer = protocol == Protocol::Tls ? std::string(kAccessDenied) : refusal(status, std::move(why));
  if (co_await client->write_all(answer)) co_await http::linger(*client);
}

net::awaitable<Result<std::unique_ptr<Transport>>> Interceptor::connect_to_server(Flow flow,
                                                                                  std::optional<std::string> name) {
  if (!options_.proxy) co_return co_await options_.dial(flow.destination, flow.port, options_.connect);
  co_return co_await connect_through(*options_.proxy, name.value_or(format_ip_address(flow.destination)), flow.port,
                                     options_.connect);
}

net::awaitable<void> Interceptor::splice(std::unique_ptr<Transport> client, Flow flow, FirstBytes first) {
  auto server = co_await connect_to_server(flow, first.name);
  if (!server) {
    rules_.failed(flow, first.name.value_or(""), server.error().message);
    co_return;
  }
  keep_alive((*server)->native_fd());
  (*server)->set_timeout(options_.connect);
  if (!first.bytes.empty() && !co_await (*server)->write_all(first.bytes)) co_return;
  (*server)->set_deadline(std::nullopt);
  first = {};
  static_cast<void>(co_await http::splice(*client, **server, pipes_));
}

net::awaitable<void> Interceptor::open(std::unique_ptr<Transport> client, Flow flow, FirstBytes first, Peer& peer) {
  // The host of a connection without a name cannot be verified.
  if (!first.name || first.protocol == Protocol::Other) {
    co_return co_await refuse(std::move(client), first.protocol, 403, "the connection names no host");
  }
  const bool secure = first.protocol == Protocol::Tls;
  OpenedConnection connection(rules_, peer.client, flow, secure ? "https" : "http", *first.name);
  const bool http1 = first.offers_http1;
  const bool http2 = secure && first.offers_http2;
  client = http::make_prefixed_transport(std::move(first.bytes), std::move(client));
  first = {};
  if (!secure) co_return co_await serve_http1(std::move(client), connection);
  // The client is offered the version that the host has chosen, so that nothing is translated.
  H2Relay::Upstream upstream(nullptr);
  if (http2) upstream = co_await peer.connector.connect_http2(connection.origin(), http1, options_.connect);
  const bool as_http2 = http2 && (!upstream || *upstream);
  auto leaf = leaves_.for_host(connection.host());
  if (!leaf) co_return rules_.failed(flow, connection.host(), leaf.error().message);
  auto opened = co_await tls::accept_tls(std::move(*leaf), std::move(client), options_.handshake,
                                         as_http2 ? tls::Offer::Http2 : tls::Offer::Http1);
  if (!opened) co_return rules_.failed(flow, connection.host(), opened.error().message);
  if (!as_http2) co_return co_await serve_http1(std::move(*opened), connection);
  co_await serve_http2(std::move(*opened), connection, std::move(upstream), peer);
}

net::awaitable<void> Interceptor::serve_http1(std::unique_ptr<Transport> client, OpenedConnection& connection) {
  const http::Handler handler = [&](http::Request& request) { return connection.handle(request); };
  http::ServerOptions options;
  options.on_exception = [](const http::Request&, const std::exception& bug) {
    log_error("handler of an intercepted request threw", {{"error", bug.what()}});
  };
  co_await http::serve_transport(std::move(client), handler, options);
}

net::awaitable<void> Interceptor::serve_http2(std::unique_ptr<Transport> client, OpenedConnection& connection,
                                              H2Relay::Upstream upstream, Peer& peer) {
  std::optional<Place> wide;
  H2Limits limits;
  if (peer.wide < kWideConnections) {
    wide.emplace(peer.wide);
    limits.connection_window = kWideWindow;
  }
  H2Relay relay(rules_, connection, std::move(client), std::move(upstream), limits);
  co_await relay.run();
}

}  // namespace osb::intercept
