#include "intercept/upstream.h"

#include <algorithm>
#include <utility>

#include "base/deadline.h"
#include "http/url.h"
#include "tls/transport.h"

namespace osb::intercept {
namespace {

using std::chrono::milliseconds;
using Connected = Result<std::unique_ptr<http::Transport>>;

constexpr std::size_t kMostAddresses = 4;  // that are tried
constexpr milliseconds kShortestTry{1000};

class UpstreamConnector final : public http::Connector {
 public:
  UpstreamConnector(Rules& rules, IpAddress sandbox, Dial dial, std::shared_ptr<const UpstreamProxy> proxy,
                    std::shared_ptr<const tls::ClientContext> trust)
      : rules_(rules), sandbox_(sandbox), dial_(std::move(dial)), proxy_(std::move(proxy)), trust_(std::move(trust)) {}

  net::awaitable<Connected> connect(std::string origin, milliseconds timeout) override {
    const auto url = http::Url::parse(origin);
    if (!url) co_return Failure(url.error());
    const Deadline until(timeout);
    auto plain = co_await connect_any(url->host, url->port, until);
    if (!plain || url->scheme == "http") co_return plain;
    if (url->scheme != "https") co_return fail(Code::InvalidRequest, "no scheme to connect with: " + url->scheme);
    co_return co_await tls::connect_tls(trust_, std::move(*plain), url->host, left(until));
  }

 private:
  static milliseconds left(const Deadline& until) { return std::max(until.left(), milliseconds(1)); }

  net::awaitable<Connected> connect_any(std::string host, std::uint16_t port, Deadline until) {
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

  Rules& rules_;
  const IpAddress sandbox_;
  const Dial dial_;
  const std::shared_ptr<const UpstreamProxy> proxy_;
  const std::shared_ptr<const tls::ClientContext> trust_;
};

}  // namespace

Dial plain_dial() {
  return [](IpAddress address, std::uint16_t port, milliseconds timeout) {
    return http::connect_plain(http::Address::tcp(format_ip_address(address), port), timeout);
  };
}

std::unique_ptr<http::Connector> make_upstream_connector(Rules& rules, IpAddress sandbox, Dial dial,
                                                         std::shared_ptr<const UpstreamProxy> proxy,
                                                         std::shared_ptr<const tls::ClientContext> trust) {
  return std::make_unique<UpstreamConnector>(rules, sandbox, std::move(dial), std::move(proxy), std::move(trust));
}

}  // namespace osb::intercept
