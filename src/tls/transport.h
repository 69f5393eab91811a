#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "http/transport.h"
#include "tls/context.h"

namespace osb::tls {

// TLS over an open transport, which it takes over. The result is a Transport like any other, with these rules:
//
// - shutdown_write() sends close_notify; close() alone does not, so a stream that was broken off does not look
// complete.
// - A peer that leaves without close_notify is a failure (ECONNRESET), not an end (see
// ClientOptions::allow_truncation).
// - After Again a write must be repeated with the same bytes (more may follow them): they are encrypted already.

// The versions of HTTP that a side offers (ALPN). A peer that knows nothing of it speaks HTTP/1.1.
enum class Offer : std::uint8_t { Http1, Http2, Http2Or1 };
// True if both have agreed on HTTP/2. `transport` is a result of the calls below.
bool speaks_http2(const http::Transport& transport);

// Client side. `host` is the name or IP address that the certificate must be for, and goes into SNI (names only).
net::awaitable<Result<std::unique_ptr<http::Transport>>> connect_tls(std::shared_ptr<const ClientContext> context,
                                                                     std::unique_ptr<http::Transport> inner,
                                                                     std::string host,
                                                                     std::chrono::milliseconds timeout,
                                                                     Offer offer = Offer::Http1);

// Server side. A client that speaks plain HTTP gets a 400 in clear text that says so; the error has this reason then.
inline constexpr const char* kPlainHttp = "TLS::PLAIN_HTTP";
net::awaitable<Result<std::unique_ptr<http::Transport>>> accept_tls(std::shared_ptr<const ServerContext> context,
                                                                    std::unique_ptr<http::Transport> inner,
                                                                    std::chrono::milliseconds timeout,
                                                                    Offer offer = Offer::Http1);

}  // namespace osb::tls
