#include "egress/report/own_connector.h"

#include <sys/socket.h>

#include "async/timer.h"
#include "egress/dns/answer.h"
#include "http/finish_connect.h"
#include "http/url.h"
#include "tls/transport.h"

namespace osb::egress {
namespace {

class OwnConnector final : public http::Connector {
 public:
  // `roots`: nothing means no https.
  OwnConnector(net::any_io_executor executor, Upstreams& upstreams, SocketIdentity identity,
               std::optional<std::string> roots)
      : executor_(std::move(executor)), upstreams_(upstreams), identity_(identity), roots_(std::move(roots)) {}

  net::awaitable<Result<std::unique_ptr<http::Transport>>> connect(std::string origin,
                                                                   std::chrono::milliseconds timeout) override {
    return with_timeout(open(std::move(origin), timeout), timeout);
  }

 private:
  net::awaitable<Result<std::unique_ptr<http::Transport>>> open(std::string origin, std::chrono::milliseconds timeout) {
    const auto url = http::Url::parse(origin.contains("://") ? origin : "http://" + origin);
    if (!url) co_return Failure(url.error());
    if (url->scheme == "https" && !roots_) co_return fail(Code::Unsupported, "https is not supported here");
    const auto address = co_await resolve(url->host);
    if (!address) co_return Failure(address.error());
    auto socket = connect_to({*address, url->port}, SOCK_STREAM, identity_);
    if (!socket) co_return Failure(socket.error());
    auto plain = http::make_plain_transport(executor_, std::move(*socket));
    if (url->scheme != "https") co_return plain;
    if (!context_) {
      tls::ClientOptions options;
      options.ca_pem = *roots_;
      auto made = tls::ClientContext::make(options);
      if (!made) co_return Failure(made.error());
      context_ = std::move(*made);
    }
    co_return co_await tls::connect_tls(context_, std::move(plain), url->host, timeout);
  }

  net::awaitable<Result<IpAddress>> resolve(std::string host) {
    if (const auto address = parse_ip_address(host)) co_return *address;
    const auto name = name_from_text(host);
    if (!name) co_return fail(Code::InvalidRequest, "no host name: " + host);
    struct Wait {
      explicit Wait(net::any_io_executor executor) : done(std::move(executor)) {}
      Event done;
      Result<IpAddress> address = fail(Code::NotFound, "the name has no address");
    };
    const auto wait = std::make_shared<Wait>(executor_);
    const Question question(*name, RecordType::A, false, false);
    upstreams_.ask(question, [wait, question](Result<Response> response) {
      if (!response) wait->address = Failure(response.error());
      if (response) {
        const Answer answer(question, *response);
        if (!answer.addresses().empty()) wait->address = answer.addresses().front().address;
      }
      wait->done.set();
    });
    if (!co_await wait->done.wait()) co_return fail(Code::Cancelled, "cancelled");
    co_return wait->address;
  }

  net::any_io_executor executor_;
  Upstreams& upstreams_;
  SocketIdentity identity_;
  const std::optional<std::string> roots_;
  std::shared_ptr<const tls::ClientContext> context_;
};

}  // namespace

std::unique_ptr<http::Connector> make_own_connector(net::any_io_executor executor, Upstreams& upstreams,
                                                    SocketIdentity identity, std::string roots) {
  return std::make_unique<OwnConnector>(std::move(executor), upstreams, identity, std::move(roots));
}

std::unique_ptr<http::Connector> make_own_plain_connector(net::any_io_executor executor, Upstreams& upstreams,
                                                          SocketIdentity identity) {
  return std::make_unique<OwnConnector>(std::move(executor), upstreams, identity, std::nullopt);
}

std::shared_ptr<const intercept::UpstreamProxy> make_own_proxy(net::any_io_executor executor, Upstreams& upstreams,
                                                               SocketIdentity identity, std::string origin,
                                                               std::string authorization) {
  return std::make_shared<const intercept::UpstreamProxy>(
      make_own_plain_connector(std::move(executor), upstreams, identity), std::move(origin), std::move(authorization));
}

intercept::Dial make_own_dial(SocketIdentity identity) {
  return [identity](IpAddress address, std::uint16_t port,
                    std::chrono::milliseconds timeout) -> net::awaitable<Result<std::unique_ptr<http::Transport>>> {
    const Endpoint to{address, port};
    auto socket = connect_to(to, SOCK_STREAM, identity);
    if (!socket) co_return Failure(socket.error());
    co_return co_await http::finish_connect(std::move(*socket), format_endpoint(to), timeout);
  };
}

}  // namespace osb::egress
