#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "async/net.h"
#include "http/transport.h"
#include "http/websocket_frame.h"

namespace osb::http {

namespace ws {

// Follows the frames of one direction of a WebSocket and holds back nothing but close frames. A close frame without a
// code, or with one that may not be sent, gets another code: towards the client 1000 for none and 1011 for others,
// towards the backend 1000 and 1001.
class CloseFilter {
 public:
  // `receiver`: the role of the side that gets the frames.
  explicit CloseFilter(Role receiver) : receiver_(receiver) {}

  struct Passed {
    std::string_view frames;  // a prefix of the bytes given
    std::string_view close;   // follows them; valid until the next call
  };
  // Bytes behind a close frame are dropped.
  Passed pass(std::string_view bytes);
  // The close frame for a sender that has ended without one. Empty: it had sent one, or ended inside a frame.
  std::string_view end();
  bool closed() const { return closed_; }

 private:
  bool take_head(std::string_view& bytes);
  void take_close(std::string_view bytes);
  void make_close(std::uint16_t code);

  Role receiver_;
  std::string head_;        // of the frame that begins
  std::uint64_t left_ = 0;  // of the payload that passes
  std::string close_;
  bool closed_ = false;
};

}  // namespace ws

// Both directions of a WebSocket between a client and a backend, until both have ended. Messages of any size pass as
// they come; a side that is lost is told to the other by a close frame.
net::awaitable<void> relay_websocket(Transport& client, std::string from_client, std::unique_ptr<Transport> backend,
                                     std::string from_backend);

}  // namespace osb::http
