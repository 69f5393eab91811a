#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "http/transport.h"
#include "tls/context.h"

namespace osb::tls {

// For http::ServerOptions::secure. Keep the context to exchange its certificate later (ServerContext::reload).
std::function<net::awaitable<Result<std::unique_ptr<http::Transport>>>(std::unique_ptr<http::Transport>)> secure_with(
    std::shared_ptr<const ServerContext> context,
    std::chrono::milliseconds handshake_timeout = std::chrono::milliseconds(10'000));

}  // namespace osb::tls
