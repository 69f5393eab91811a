#include "intercept/upstream.h"

#include <algorithm>
#include <utility>

#include "http/url.h"

namespace osb::intercept {
namespace {

using std::chrono::milliseconds;
using Connected = UpstreamConnector::Connected;

constexpr std::size_t kMostAddresses = 4;  // that are tried
constexpr milliseconds kShortestTry{1000};
constexpr std::chrono::minutes kAskAgain{10};  // a host that spoke no HTTP/2
constexpr std::size_t kMostHosts = 64;         // that are remembered for it

milliseconds left(const Deadline& until) { return std::max(until.left(), milliseconds(1)); }

}  // namespace

net::awaitable<Connected> UpstreamConnector::connect(std::string origin, milliseconds timeout) {
  if (const auto found = http1_hosts_.find(origin); found != http1_hosts_.end() && found->second.waiting) {
    // The host may have ended it meanwhile.
    auto waiting = std::move(found->second.waiting);
    char byte = 0;
    if (waiting->try_read({&byte, 1}).kind == http::Transport::Io::Kind::Again) co_return waiting;
  }
  co_return co_await connect_as(std::move(origin), tls::Offer::Http1, timeout);
}

net::awaitable<Connected> UpstreamConnector::connect_http2(std::string origin, bool also_http1, milliseconds timeout) {
  const auto known = http1_hosts_.find(origin);
  if (also_http1 && known != http1_hosts_.end() && !known->second.ask_again.passed()) {
    co_return std::unique_ptr<http::Transport>();
  }
  auto made = co_await connect_as(origin, also_http1 ? tls::Offer::Http2Or1 : tls::Offer::Http2, timeout);
  if (!made || tls::speaks_http2(**made)) {
    if (made) http1_hosts_.erase(origin);
    co_return made;
  }
  if (!also_http1) co_return fail(Code::Unavailable, origin + " does not speak HTTP/2, and the client nothing else");
  if (http1_hosts_.size() >= kMostHosts) http1_hosts_.clear();
  http1_hosts_.insert_or_assign(origin, Http1Host{Deadline(kAskAgain), std::move(*made)});
  co_return std::unique_ptr<http::Transport>();
}

net::awaitable<Connected> UpstreamConnector::connect_as(std::string origin, tls::Offer offer, milliseconds timeout) {
  const auto url = http::Url::parse(origin);
  if (!url) co_return Failure(url.error());
  const Deadline until(timeout);
  auto plain = co_await connect_any(url->host, url->port, until);
  if (!plain || url->scheme == "http") co_return plain;
  if (url->scheme != "https") co_return fail(Code::InvalidRequest, "no scheme to connect with: " + url->scheme);
  co_return co_await tls::connect_tls(trust_, std::move(*plain), url->host, left(until), offer);
}

net::awaitable<Connected> UpstreamConnector::connect_any(std::string host, std::uint16_t port, Deadline until) {
  const auto addresses = co_await rules_.resolve(sandbox_, host);
  if (!addresses) co_return with_context(host, addresses.error());
  if (proxy_) co_return co_await connect_through(*proxy_, host, port, left(until));
  Error last(Code::Unavailable, "the name has no address");
  const std::size_t count = std::min(addresses->size(), kMostAddresses);
  for (std::size_t i = 0; i < count && !until.passed(); ++i) {
    const auto waiting = static_cast<std::int64_t>(count - i);
    const auto share = std::min(left(until), std::max(left(until) / waiting, kShortestTry));
    auto made = co_await dial_((*addresses)[i], port, share);
    if (made) co_return made;
    last = std::move(made.error());
  }
  co_return with_context(host, std::move(last));
}

Dial plain_dial() {
  return [](IpAddress address, std::uint16_t port, milliseconds timeout) {
    return http::connect_plain(http::Address::tcp(format_ip_address(address), port), timeout);
  };
}

}  // namespace osb::intercept
