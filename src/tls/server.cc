#include "tls/server.h"

#include <utility>

#include "tls/transport.h"

namespace osb::tls {

std::function<net::awaitable<Result<std::unique_ptr<http::Transport>>>(std::unique_ptr<http::Transport>)> secure_with(
    std::shared_ptr<const ServerContext> context, std::chrono::milliseconds handshake_timeout) {
  return [context = std::move(context), handshake_timeout](std::unique_ptr<http::Transport> accepted) {
    return accept_tls(context, std::move(accepted), handshake_timeout);
  };
}

}  // namespace osb::tls
