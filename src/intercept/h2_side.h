#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "async/timer.h"
#include "http/transport.h"
#include "intercept/h2_session.h"

namespace osb::intercept {

// A session and its connection: reads from the socket into the session, and writes its frames to the socket.
class H2Side {
 public:
  // `moved` is called when bytes have been received or sent, so that frames of this side, and of another one that
  // depends on it, may be waiting: it calls flush(). `events` outlives it.
  H2Side(std::unique_ptr<http::Transport> transport, H2Session::Role role, H2Events& events, const H2Limits& limits,
         std::function<void()> moved);
  ~H2Side();

  H2Session& session() { return session_; }

  // Until the connection has ended, by either side. Nothing: in order. `is_idle`: asked when no byte came for `idle`;
  // true ends the connection.
  net::awaitable<Result<void>> run(std::chrono::milliseconds idle, std::function<bool()> is_idle);

  // Sends what the socket takes now; run() sends the rest. True: something went out.
  bool flush();

  // After run(): tells the peer that we leave, as far as the socket takes that now.
  void leave();
  // The same, and waits a moment for the peer, so that it gets all that was sent.
  net::awaitable<void> linger();

 private:
  net::awaitable<void> read();
  net::awaitable<void> write();
  bool take_frames();
  bool is_done() const { return session_.ended() && sent_ == out_.size(); }

  std::unique_ptr<http::Transport> transport_;
  H2Session session_;
  std::function<void()> moved_;
  std::chrono::milliseconds idle_{};
  std::function<bool()> is_idle_;
  std::string out_;       // frames that the socket has not taken yet
  std::size_t sent_ = 0;  // of them
  http::Transport::Wait stuck_on_ = http::Transport::Wait::Writable;
  Event stuck_;        // the socket took no more
  const bool secret_;  // frames hold secrets: they are overwritten when they were sent
  bool broken_ = false;
  Result<void> outcome_;
};

}  // namespace osb::intercept
