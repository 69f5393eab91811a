#include "execd/proxy/tunnel.h"

#include <memory>
#include <utility>

#include <boost/asio/this_coro.hpp>

#include "async/race.h"
#include "async/timer.h"
#include "base/parse_number.h"
#include "execd/proxy/port_proxy.h"
#include "http/websocket.h"

namespace osb::execd {
namespace {

using namespace race;

constexpr std::size_t kPiece = 64 * 1024;
constexpr std::chrono::seconds kConnect(10);
constexpr std::uint16_t kNormal = 1000, kInternalError = 1011;
constexpr std::string_view kEnd = R"({"type":"eof"})";

// Both sides may pause for as long as they like, so nothing here has a deadline; pings keep the way open.
http::WebSocket::Options patient(std::chrono::milliseconds ping_interval) {
  http::WebSocket::Options options;
  options.ping_interval = ping_interval;
  options.read_timeout = options.write_timeout = std::chrono::milliseconds(0);
  return options;
}

struct Tunnel {
  Tunnel(net::any_io_executor executor, http::WebSocket& s, http::Transport& p)
      : socket(s), port(p), changed(std::move(executor)) {}
  http::WebSocket& socket;
  http::Transport& port;
  Notifier changed;
  bool client_ended = false;
  bool broken = false;  // by the port
};

// Until the client disconnects. Reads on after its end of input, to answer pings and to notice that it disconnects.
net::awaitable<void> from_client(Tunnel& tunnel) {
  for (;;) {
    const auto message = co_await tunnel.socket.read();
    if (!message) co_return;
    if (tunnel.client_ended || message->data.empty()) continue;
    if (!message->text) {
      (void)co_await tunnel.port.write_all(message->data);  // a port that takes no more may still speak
    } else if (message->data == kEnd) {
      tunnel.client_ended = true;
      tunnel.port.shutdown_write();
      tunnel.changed.notify_all();
    }
  }
}

// Until both sides have ended, or the port has broken off.
net::awaitable<void> from_port(Tunnel& tunnel) {
  std::string buffer(kPiece, '\0');
  for (;;) {
    const auto got = co_await tunnel.port.read_some(buffer);
    if (!got) {
      tunnel.broken = true;
      co_return;
    }
    if (*got == 0) break;
    if (!co_await tunnel.socket.send_binary(std::string_view(buffer.data(), *got))) co_return;
  }
  if (!co_await tunnel.socket.send_text(kEnd)) co_return;
  co_await tunnel.changed.wait_until([&] { return tunnel.client_ended; });
}

net::awaitable<void> serve(http::WebSocket& socket, std::shared_ptr<http::Transport> port) {
  Tunnel tunnel(co_await net::this_coro::executor, socket, *port);
  // With a port that neither takes nor sends only the pings tell that the client is gone.
  co_await (from_client(tunnel) || from_port(tunnel) || socket.closed());
  port->close();
  co_await socket.close(tunnel.broken ? kInternalError : kNormal, tunnel.broken ? "the port broke off" : "");
}

net::awaitable<http::Response> open_tunnel(http::Request& request, std::chrono::milliseconds ping_interval) {
  const std::uint16_t number = parse_number<std::uint16_t>(request.params["port"]).value_or(0);
  if (number == 0) {
    co_return http::problem(400, "INVALID_REQUEST_BODY", "/tunnel/{port}: expected a port from 1 to 65535");
  }
  if (!http::is_websocket_upgrade(request)) co_return http::websocket_response(request, {}, {});
  auto opened = co_await connect_loopback(number, kConnect);
  if (!opened) {
    co_return http::problem(502, "RUNTIME_ERROR", "Bad Gateway: nothing listens on port " + std::to_string(number));
  }
  co_return http::websocket_response(request, patient(ping_interval),
                                     [port = std::shared_ptr<http::Transport>(std::move(*opened))](
                                         http::WebSocket& socket) { return serve(socket, port); });
}

}  // namespace

void add_tunnel_route(http::Router& router, std::chrono::milliseconds ping_interval) {
  router.get("/tunnel/{port}", [ping_interval](http::Request& request) { return open_tunnel(request, ping_interval); });
}

}  // namespace osb::execd
