#include "tls/server.h"

#include <utility>

#include "base/log.h"
#include "base/log_rate.h"
#include "tls/transport.h"

namespace osb::tls {
namespace {

using Secured = Result<std::unique_ptr<http::Transport>>;

net::awaitable<Secured> accept(std::shared_ptr<const ServerContext> context, std::unique_ptr<http::Transport> accepted,
                               std::chrono::milliseconds timeout, std::shared_ptr<LogRate> rate) {
  const std::string peer = accepted->peer();
  auto secured = co_await accept_tls(std::move(context), std::move(accepted), timeout);
  if (!secured && secured.error().reason == kPlainHttp) {
    if (const auto left_out = rate->next()) {
      log_warn("plain HTTP spoken to a port of TLS; clients must use https:// here",
               {{"peer", peer}, {"left_out", *left_out}});
    }
  }
  co_return secured;
}

}  // namespace

std::function<net::awaitable<Result<std::unique_ptr<http::Transport>>>(std::unique_ptr<http::Transport>)> secure_with(
    std::shared_ptr<const ServerContext> context, std::chrono::milliseconds handshake_timeout) {
  auto rate = std::make_shared<LogRate>();
  return [context = std::move(context), handshake_timeout, rate](std::unique_ptr<http::Transport> accepted) {
    return accept(context, std::move(accepted), handshake_timeout, rate);
  };
}

}  // namespace osb::tls
