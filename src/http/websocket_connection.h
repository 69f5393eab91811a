#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <boost/asio/steady_timer.hpp>

#include "http/websocket.h"
#include "http/websocket_frame.h"

namespace osb::http::ws {

// An open connection behind both kinds of WebSocket. Internal to module http.
//
// Every operation keeps the connection alive (hence shared), so destroying the WebSocket under one is safe: detach()
// ends it. Nothing runs in the background but one timer: the function that makes a ping or pong writes it as far as the
// socket takes it, and the rest goes out with the next writer.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // `transport` is used until detach(); `owned` is empty if the caller keeps it until then.
  Connection(Transport& transport, std::unique_ptr<Transport> owned, Role role, WebSocket::Options options,
             std::string buffered);
  void start();  // once it is in its shared_ptr

  // Cancelling it loses nothing: the next call goes on where this one was.
  net::awaitable<Result<WebSocket::Message>> read();
  // Cancelling it in the middle of a frame breaks the connection.
  net::awaitable<Result<void>> send(Opcode opcode, std::string_view payload);
  net::awaitable<void> close(std::uint16_t code, std::string reason);
  net::awaitable<void> closed();
  std::uint16_t close_code() const { return peer_code_; }
  const std::string& close_reason() const { return peer_reason_; }

  // Sends a close frame as far as that is possible without waiting.
  void abort(std::uint16_t code);
  // Closes the transport and waits until no operation uses it any more.
  net::awaitable<void> finish();
  void detach();

 private:
  using Clock = std::chrono::steady_clock;
  enum class Flush { Clean, Blocked, Broken };

  // Counts operations; finish() waits for them.
  struct Operation {
    explicit Operation(Connection& c) : self(c.shared_from_this()) { ++self->operations_; }
    ~Operation() {
      --self->operations_;
      self->notify();
    }
    Operation(const Operation&) = delete;
    std::shared_ptr<Connection> self;
  };
  // A place in the queue of writers; the first one may write.
  struct QueuePlace {
    explicit QueuePlace(Connection& c) : connection(c) { c.writers_.push_back(this); }
    ~QueuePlace() {
      std::erase(connection.writers_, this);
      connection.notify();
    }
    QueuePlace(const QueuePlace&) = delete;
    Connection& connection;
  };
  struct Reading;
  struct Frame;

  net::awaitable<Result<WebSocket::Message>> next_message();
  FrameDecoder::Event decode(std::string_view& bytes);
  FrameDecoder::Event decode_inbox();
  net::awaitable<Result<WebSocket::Message>> end_reading(FrameDecoder::Event event);
  net::awaitable<Result<void>> await_turn(const QueuePlace& place);
  net::awaitable<Result<void>> write(std::span<iovec> pieces);
  net::awaitable<Result<void>> write_frame(Opcode opcode, std::string_view payload);
  net::awaitable<Result<void>> blocked(Transport::Wait what);
  net::awaitable<void> flush_in_turn();
  net::awaitable<Result<void>> flush();
  Flush try_flush(Transport::Wait& what);
  bool stage_control();
  bool control_waiting() const { return control_sent_ < control_.size() || pong_ || ping_due_ || close_due_; }
  void poke();
  net::awaitable<void> discard_input();

  net::awaitable<Result<void>> changed();
  void notify() { wake_.cancel(); }
  Failure drop(Error error);
  void queue_close(std::uint16_t code, std::string_view reason);

  Clock::time_point next_deadline() const;
  void arm();
  void on_timer();
  std::optional<Clock::time_point> silence_ends() const;   // a read waits for too long
  std::optional<Clock::time_point> patience_ends() const;  // a write does

  std::unique_ptr<Transport> owned_;
  Transport* transport_;
  const Role role_;
  const WebSocket::Options options_;
  FrameDecoder decoder_;
  std::string inbox_;  // received behind the last message and not decoded yet
  std::size_t inbox_used_ = 0;
  int busy_reads_ = 0;

  // Control frames: those due, and the encoded bytes on their way. Of several unanswered pings the last one counts (RFC
  // 6455, 5.5.3), so a peer that only pings cannot make this grow.
  std::optional<std::string> pong_;
  bool ping_due_ = false;
  std::optional<std::string> close_due_;
  std::string control_;
  std::size_t control_sent_ = 0;

  std::deque<const QueuePlace*> writers_;
  int operations_ = 0;
  bool reading_ = false;
  bool awaiting_input_ = false;
  bool close_queued_ = false;
  bool peer_closed_ = false;
  bool input_broken_ = false;
  bool dropped_ = false;
  std::optional<Error> failure_;
  std::uint16_t peer_code_ = close_code::kAbnormal;
  std::string peer_reason_;

  Clock::time_point last_input_;
  Clock::time_point read_began_;
  Clock::time_point next_ping_;
  std::optional<Clock::time_point> blocked_since_;
  std::optional<Clock::time_point> close_deadline_;
  Clock::time_point armed_for_ = Clock::time_point::max();
  net::steady_timer timer_;
  net::steady_timer wake_;  // a condition variable: never expires, cancelled when something changed
};

}  // namespace osb::http::ws
