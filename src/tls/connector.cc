#include "tls/connector.h"

#include <algorithm>
#include <utility>

#include "base/deadline.h"
#include "http/url.h"
#include "tls/resolver.h"
#include "tls/transport.h"

namespace osb::tls {
namespace {

using http::Transport;
using std::chrono::milliseconds;

// A dead address must not use up the time of those behind it, nor a slow network look like one.
constexpr milliseconds kShortestTry{1000};

Result<http::Url> parse_origin(const std::string& origin) {
  if (origin.starts_with("unix:") || origin.contains("://")) return http::Url::parse(origin);
  return http::Url::parse("http://" + origin);
}

class TlsConnector final : public http::Connector {
 public:
  TlsConnector(net::any_io_executor executor, std::shared_ptr<const ClientContext> context, AddressGuard guard)
      : resolver_(std::move(executor)), context_(std::move(context)), guard_(std::move(guard)) {}

  net::awaitable<Result<std::unique_ptr<Transport>>> connect(std::string origin, milliseconds timeout) override {
    const auto url = parse_origin(origin);
    if (!url) co_return Failure(url.error());
    if (url->scheme == "unix") co_return co_await http::connect_plain(http::Address::unix_socket(url->host), timeout);
    const Deadline until(timeout);
    auto plain = co_await connect_any(*url, until);
    if (!plain || url->scheme != "https") co_return plain;
    if (!context_) {
      auto made = ClientContext::make({});
      if (!made) co_return Failure(made.error());
      context_ = std::move(*made);
    }
    co_return co_await connect_tls(context_, std::move(*plain), url->host, left(until));
  }

 private:
  static milliseconds left(const Deadline& until) { return std::max(until.left(), milliseconds(1)); }

  // The address that was checked is the one that is connected to: the name is looked up once.
  net::awaitable<Result<std::unique_ptr<Transport>>> connect_any(const http::Url& origin, Deadline until) {
    const std::string& host = origin.host;
    const auto addresses = co_await resolver_.resolve(host, left(until));
    if (!addresses) co_return Failure(addresses.error());
    for (std::size_t i = 0; guard_ && i < addresses->size(); ++i) {
      if (auto allowed = guard_(origin, (*addresses)[i]); !allowed) co_return Failure(allowed.error());
    }
    Error last(Code::Timeout, "connect " + host + ": timed out");
    for (std::size_t i = 0; i < addresses->size() && !until.passed(); ++i) {
      const auto waiting = static_cast<std::int64_t>(addresses->size() - i);
      const auto share = std::min(left(until), std::max(left(until) / waiting, kShortestTry));
      auto made = co_await http::connect_plain(http::Address::tcp((*addresses)[i], origin.port), share);
      if (made) co_return made;
      last = std::move(made.error());
    }
    if (addresses->front() == host) co_return Failure(std::move(last));
    co_return with_context(host, std::move(last));
  }

  Resolver resolver_;
  std::shared_ptr<const ClientContext> context_;
  const AddressGuard guard_;
};

}  // namespace

std::unique_ptr<http::Connector> make_connector(net::any_io_executor executor,
                                                std::shared_ptr<const ClientContext> context, AddressGuard guard) {
  return std::make_unique<TlsConnector>(std::move(executor), std::move(context), std::move(guard));
}

}  // namespace osb::tls
