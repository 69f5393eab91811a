#include "intercept/upstream_proxy.h"

#include <array>
#include <span>
#include <string_view>

#include "async/timer.h"
#include "base/parse_number.h"

namespace osb::intercept {
namespace {

using Connected = Result<std::unique_ptr<http::Transport>>;

constexpr std::size_t kMostHead = 16 << 10;
constexpr std::string_view kEnd = "\r\n\r\n";  // of a head

std::string request_head(const UpstreamProxy& proxy, const std::string& host, std::uint16_t port) {
  const std::string to = (host.contains(':') ? "[" + host + "]" : host) + ":" + std::to_string(port);
  std::string out = "CONNECT " + to + " HTTP/1.1\r\nHost: " + to + "\r\n";
  if (!proxy.authorization.empty()) out += "Proxy-Authorization: " + proxy.authorization + "\r\n";
  return out + "\r\n";
}

// Bytes that the head needs at least.
std::size_t missing_of_end(std::string_view head) {
  std::size_t there = kEnd.size();
  while (!head.ends_with(kEnd.substr(0, there))) --there;
  return kEnd.size() - there;
}

// 0: the line is none of HTTP.
int status_of(std::string_view head) {
  if (!head.starts_with("HTTP/1.") || head.size() < 12 || head[8] != ' ') return 0;
  return parse_number<int>(head.substr(9, 3)).value_or(0);
}

net::awaitable<Connected> ask(const UpstreamProxy& proxy, std::string host, std::uint16_t port,
                              std::chrono::milliseconds timeout) {
  auto connected = co_await proxy.connector->connect(proxy.origin, timeout);
  if (!connected) co_return connected;
  std::unique_ptr<http::Transport> transport = std::move(*connected);
  if (auto sent = co_await transport->write_all(request_head(proxy, host, port)); !sent)
    co_return Failure(sent.error());
  std::string head;
  std::array<char, kEnd.size()> piece{};
  // Never past its end: the bytes behind it are the host's.
  for (std::size_t missing; (missing = missing_of_end(head)) > 0;) {
    const auto got = co_await transport->read_some(std::span(piece).first(missing));
    if (!got) co_return Failure(got.error());
    if (*got == 0) co_return fail(Code::Unavailable, "closed the connection before it answered");
    head.append(piece.data(), *got);
    if (head.size() > kMostHead) co_return fail(Code::Unavailable, "answered with a head that is too long");
  }
  const int status = status_of(head);
  if (status == 407) co_return fail(Code::Unavailable, "answered 407: check its authorization");
  if (status < 200 || status > 299) co_return fail(Code::Unavailable, "answered " + std::to_string(status));
  co_return transport;
}

}  // namespace

net::awaitable<Connected> connect_through(const UpstreamProxy& proxy, std::string host, std::uint16_t port,
                                          std::chrono::milliseconds timeout) {
  auto made = co_await with_timeout(ask(proxy, host, port, timeout), timeout);
  if (!made) co_return with_context("proxy " + proxy.origin + " to " + host, made.error());
  co_return made;
}

}  // namespace osb::intercept
