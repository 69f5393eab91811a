#include "execd/proxy/port_proxy.h"

#include <cerrno>

#include <boost/asio/steady_timer.hpp>

#include "base/parse_number.h"
#include "execd/daemon/access_token.h"
#include "http/reverse_proxy.h"

namespace osb::execd {
namespace {

constexpr std::string_view kPrefix = "/proxy";

// Shorter than the keep-alive of common servers (2 s and up): a request rarely meets a connection that is just being
// closed at the other end.
constexpr std::chrono::milliseconds kIdle{1500};

constexpr std::string_view kNotConnected = "BACKEND_CONNECTION_FAILED";

class LoopbackConnector final : public http::Connector {
 public:
  net::awaitable<Result<std::unique_ptr<http::Transport>>> connect(std::string origin,
                                                                   std::chrono::milliseconds timeout) override {
    auto address = http::Address::parse(origin);
    if (!address) co_return Failure(address.error());
    auto transport = co_await connect_loopback(address->port, timeout);
    if (!transport) transport.error().reason = kNotConnected;
    co_return transport;
  }
};

net::awaitable<http::Response> bad_port() {
  co_return http::problem(400, "INVALID_REQUEST_BODY", "/proxy/{port}/: expected a port from 1 to 65535");
}

}  // namespace

net::awaitable<Result<std::unique_ptr<http::Transport>>> connect_loopback(std::uint16_t port,
                                                                          std::chrono::milliseconds timeout) {
  auto transport = co_await http::connect_plain(http::Address::tcp("127.0.0.1", port), timeout);
  if (transport || transport.error().sys_errno != ECONNREFUSED) co_return transport;
  auto second = co_await http::connect_plain(http::Address::tcp("::1", port), timeout);
  if (second) co_return second;
  co_return transport;
}

std::optional<ProxyPath> parse_proxy_path(std::string_view target) {
  if (!target.starts_with(kPrefix)) return std::nullopt;
  std::string_view rest = target.substr(kPrefix.size());
  if (!rest.empty() && !rest.starts_with('/') && !rest.starts_with('?')) return std::nullopt;
  if (rest.starts_with('/')) rest.remove_prefix(1);

  ProxyPath out;
  const std::size_t end = std::min(rest.find_first_of("/?"), rest.size());
  if (const auto port = parse_number<std::uint16_t>(rest.substr(0, end)); port && *port > 0) out.port = port;
  rest.remove_prefix(end);
  out.target = rest.starts_with('/') ? std::string(rest) : "/" + std::string(rest);
  return out;
}

std::string forwarded_for(const http::Request& request) {
  const std::string_view chain = request.headers.get("X-Forwarded-For");
  const std::string_view first = http::trim_ows(chain.substr(0, chain.find(',')));
  if (!first.empty()) return std::string(first);
  const std::string_view real = http::trim_ows(request.headers.get("X-Real-IP"));
  return real.empty() ? request.peer : std::string(real);
}

struct PortProxy::Timer {
  explicit Timer(const net::any_io_executor& executor) : timer(executor) {}
  net::steady_timer timer;
  bool armed = false;
};

PortProxy::PortProxy(net::any_io_executor executor, http::Handler own)
    : own_(std::move(own)),
      client_(std::make_unique<LoopbackConnector>(), {.idle_per_origin = 64, .idle = kIdle}),
      timer_(std::make_unique<Timer>(std::move(executor))) {}

PortProxy::~PortProxy() = default;

net::awaitable<http::Response> PortProxy::handle(http::Request& request) {
  for (;;) {
    auto path = parse_proxy_path(request.target);
    if (!path) return own_(request);
    if (!path->port) return bad_port();
    if (!own_ports_.contains(*path->port)) return forward(request, *path->port, std::move(path->target));
    request.target = std::move(path->target);
  }
}

net::awaitable<http::Response> PortProxy::forward(http::Request& request, std::uint16_t port, std::string target) {
  http::ProxyTarget to;
  to.origin = "127.0.0.1:" + std::to_string(port);
  to.target = std::move(target);
  to.add.add("X-Forwarded-For", forwarded_for(request));
  to.add.add("X-Forwarded-Proto", "http");
  // The token is for execd; a program behind the port could use it against the sandbox.
  to.drop = {"X-Forwarded-Host", std::string(kAccessTokenHeader)};
  to.timeouts = http::kPortTimeouts;
  used_ = true;
  close_idle_later();
  to.on_error = [port](const Error& why) {
    http::Response answer =
        http::problem(502, "RUNTIME_ERROR", "Bad Gateway: no answer from port " + std::to_string(port));
    answer.headers.set(http::kProxyFailureHeader, why.reason.empty() ? "BACKEND_RESPONSE_FAILED" : why.reason);
    return answer;
  };
  return http::forward(client_, request, std::move(to));
}

// The pool looks at its connections only when it is used; the last ones would stay for good.
void PortProxy::close_idle_later() {
  if (timer_->armed) return;
  timer_->armed = true;
  timer_->timer.expires_after(kIdle);
  timer_->timer.async_wait([this](boost::system::error_code error) {
    if (error) return;
    timer_->armed = false;
    if (std::exchange(used_, false)) return close_idle_later();
    client_.clear();
  });
}

}  // namespace osb::execd
