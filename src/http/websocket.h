#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "async/net.h"
#include "base/error.h"
#include "http/message.h"
#include "http/transport.h"

namespace osb::http {

// One WebSocket connection, on either side. One reader and one writer coroutine may use it at the same time;
// concurrent send() calls are put in order.
class WebSocket {
 public:
  struct Message {
    bool text = false;
    std::string data;
  };
  struct Options {
    std::size_t max_message_bytes = 16 * 1024 * 1024;
    std::chrono::milliseconds ping_interval{30'000};  // zero: no pings of our own
    std::chrono::milliseconds read_timeout{60'000};   // reset by any frame, pongs included; zero: none
    std::chrono::milliseconds write_timeout{10'000};  // the peer takes not a byte for so long; zero: none
  };

  virtual ~WebSocket() = default;
  // The next message. An error when the peer closed (Code::Cancelled, close_code() tells the code), broke the
  // protocol, or was silent for too long.
  virtual net::awaitable<Result<Message>> read() = 0;
  virtual net::awaitable<Result<void>> send_text(std::string_view text) = 0;  // view must outlive the call
  virtual net::awaitable<Result<void>> send_binary(std::string_view bytes) = 0;
  // Sends a close frame (once) and waits shortly for the peer's.
  virtual net::awaitable<void> close(std::uint16_t code, std::string reason) = 0;
  // Until the connection is lost: for a caller that does not read from the peer, and so would not notice.
  virtual net::awaitable<void> closed() = 0;
  virtual std::uint16_t close_code() const = 0;       // what the peer sent; 1006 when it sent none
  virtual std::string_view close_reason() const = 0;  // what came with it
};

// True if the request asks for a WebSocket upgrade that we can answer.
bool is_websocket_upgrade(const Request& request);

// The 101 for such a request; `run` gets the open connection and owns it until it returns. For anything else: a 400
// problem (426 where only the version is wrong).
Response websocket_response(const Request& request, WebSocket::Options options,
                            std::move_only_function<net::awaitable<void>(WebSocket&)> run,
                            std::string_view subprotocol = "");

// Client side: handshake over an open transport. `host` and `target` as they go on the wire.
net::awaitable<Result<std::unique_ptr<WebSocket>>> websocket_connect(std::unique_ptr<Transport> transport,
                                                                     std::string host, std::string target,
                                                                     Headers extra, WebSocket::Options options);

}  // namespace osb::http
