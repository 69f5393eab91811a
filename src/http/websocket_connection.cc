#include "http/websocket_connection.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "http/websocket_key.h"

namespace osb::http::ws {
namespace {

using Io = Transport::Io;
using Event = FrameDecoder::Event;

constexpr auto kCloseWait = std::chrono::seconds(2);
// A peer that always has more must not keep the loop for itself.
constexpr int kReadsInARow = 4;
constexpr std::size_t kMaskAtOnce = 64 * 1024;

// Used between two suspensions only, so one for all connections of a thread: an idle connection holds no buffer.
std::span<char> scratch() {
  constexpr std::size_t kSize = 64 * 1024;
  thread_local const auto bytes = std::make_unique_for_overwrite<char[]>(kSize);
  return {bytes.get(), kSize};
}

iovec piece(std::string_view bytes) { return {const_cast<char*>(bytes.data()), bytes.size()}; }

net::awaitable<bool> is_cancelled() {
  co_return (co_await net::this_coro::cancellation_state).cancelled() != net::cancellation_type::none;
}

Error peer_gone(std::string why, int error = 0) {
  return Error(Code::Cancelled, "websocket: " + std::move(why), error);
}

Error io_failure(const char* doing, int error) {
  return peer_gone(std::string(doing) + ": " + std::generic_category().message(error), error);
}

}  // namespace

struct Connection::Reading {
  explicit Reading(Connection& c) : connection(c) { connection.reading_ = true; }
  ~Reading() {
    connection.reading_ = connection.awaiting_input_ = false;
    connection.notify();
  }
  Reading(const Reading&) = delete;
  Connection& connection;
};

// A data frame that is begun must be ended: nothing can follow half of one.
struct Connection::Frame {
  explicit Frame(Connection& c) : connection(c) {}
  ~Frame() {
    if (!whole) connection.drop(Error(Code::Cancelled, "websocket: a send was cancelled half-way"));
  }
  Frame(const Frame&) = delete;
  Connection& connection;
  bool whole = false;
};

Connection::Connection(Transport& transport, std::unique_ptr<Transport> owned, Role role, WebSocket::Options options,
                       std::string buffered)
    : owned_(std::move(owned)),
      transport_(&transport),
      role_(role),
      options_(options),
      decoder_(role, options.max_message_bytes),
      inbox_(std::move(buffered)),
      last_input_(Clock::now()),
      read_began_(last_input_),
      next_ping_(last_input_ + options.ping_interval),
      timer_(transport.executor()),
      wake_(transport.executor(), Clock::time_point::max()) {
  transport_->set_deadline(std::nullopt);  // two directions, two timeouts: our own timer keeps them
}

void Connection::start() { arm(); }

// ---- reading

net::awaitable<Result<WebSocket::Message>> Connection::read() {
  const Operation operation(*this);
  if (reading_) co_return fail(Code::Internal, "websocket: two readers at a time");
  const Reading reading(*this);
  read_began_ = Clock::now();
  co_return co_await next_message();
}

net::awaitable<Result<WebSocket::Message>> Connection::next_message() {
  if (failure_) co_return Failure(*failure_);
  Event event = decode_inbox();
  while (event.kind == Event::Kind::NeedMore) {
    if (control_waiting() && writers_.empty()) co_await flush_in_turn();
    if (busy_reads_ >= kReadsInARow) {
      busy_reads_ = 0;
      co_await net::post(transport_->executor(), net::as_tuple(net::use_awaitable));
    }
    if (failure_) co_return Failure(*failure_);
    const Io io = transport_->try_read(scratch());
    if (io.kind == Io::Kind::Done) {
      last_input_ = Clock::now();
      std::string_view rest(scratch().data(), io.bytes);
      event = decode(rest);
      inbox_ = rest;
      inbox_used_ = 0;
      ++busy_reads_;
      continue;
    }
    if (io.kind == Io::Kind::End) co_return drop(peer_gone("the peer left without a close frame"));
    if (io.kind == Io::Kind::Failed) co_return drop(io_failure("receive", io.error));
    busy_reads_ = 0;
    awaiting_input_ = true;
    arm();
    const auto ready = co_await transport_->wait(io.wait_for);
    awaiting_input_ = false;
    if (failure_) co_return Failure(*failure_);
    if (!ready) {
      if (co_await is_cancelled()) co_return fail(Code::Cancelled, "websocket: read cancelled");
      co_return drop(peer_gone(ready.error().message));
    }
  }
  if (event.kind == Event::Kind::Message) {
    poke();  // pongs that came due on the way
    co_return WebSocket::Message{event.text, std::move(event.payload)};
  }
  co_return co_await end_reading(std::move(event));
}

// The next event for the reader; pings and pongs are dealt with here.
Event Connection::decode(std::string_view& bytes) {
  for (;;) {
    Event event = decoder_.next(bytes);
    if (event.kind == Event::Kind::Ping) {
      if (!close_queued_) pong_ = std::move(event.payload);
    } else if (event.kind != Event::Kind::Pong) {
      return event;
    }
  }
}

Event Connection::decode_inbox() {
  if (inbox_.empty()) return {};
  std::string_view bytes = std::string_view(inbox_).substr(inbox_used_);
  Event event = decode(bytes);
  inbox_used_ = inbox_.size() - bytes.size();
  if (bytes.empty()) {
    inbox_ = std::string();
    inbox_used_ = 0;
  }
  return event;
}

net::awaitable<Result<WebSocket::Message>> Connection::end_reading(Event event) {
  if (event.kind == Event::Kind::Close) {
    peer_closed_ = true;
    peer_code_ = event.code;
    peer_reason_ = std::move(event.payload);
    std::string why = "closed by the peer with " + std::to_string(peer_code_);
    if (!peer_reason_.empty()) why += " (" + peer_reason_ + ")";
    failure_ = peer_gone(std::move(why));
    queue_close(peer_code_, {});
  } else {
    input_broken_ = true;
    failure_ =
        Error(event.code == close_code::kTooBig ? Code::TooLarge : Code::InvalidRequest, "websocket: " + event.payload);
    queue_close(event.code, event.payload);
  }
  const Error error = *failure_;
  notify();
  co_await flush_in_turn();
  co_return Failure(error);
}

net::awaitable<void> Connection::discard_input() {
  while (!dropped_) {
    const Io io = transport_->try_read(scratch());
    if (io.kind == Io::Kind::Again) {
      if (!co_await transport_->wait(io.wait_for)) co_return;
    } else if (io.kind == Io::Kind::Done) {
      co_await net::post(transport_->executor(), net::as_tuple(net::use_awaitable));
    } else {
      co_return;
    }
  }
}

// ---- writing

net::awaitable<Result<void>> Connection::send(Opcode opcode, std::string_view payload) {
  const Operation operation(*this);
  const QueuePlace place(*this);
  if (auto mine = co_await await_turn(place); !mine) co_return mine;
  if (auto flushed = co_await flush(); !flushed) co_return flushed;
  if (failure_) co_return Failure(*failure_);
  if (close_queued_) co_return fail(Code::Cancelled, "websocket: already closing");
  Frame frame(*this);
  auto sent = co_await write_frame(opcode, payload);
  frame.whole = sent.has_value() || dropped_;
  if (!sent) co_return sent;
  co_await flush();  // what came due meanwhile; if it fails, the message has gone out all the same
  co_return Result<void>();
}

net::awaitable<Result<void>> Connection::write_frame(Opcode opcode, std::string_view payload) {
  if (role_ == Role::Server) {
    const FrameHead head(opcode, payload.size(), nullptr);
    iovec pieces[] = {piece(head.view()), piece(payload)};
    co_return co_await write(pieces);
  }
  const Mask mask = new_mask();
  std::string masked(FrameHead(opcode, payload.size(), &mask).view());
  std::size_t done = 0;
  do {
    const std::size_t head = masked.size();
    const std::string_view part = payload.substr(done, kMaskAtOnce);
    masked += part;
    apply_mask(masked.data() + head, part.size(), mask, done);
    done += part.size();
    iovec pieces[] = {piece(masked)};
    if (auto sent = co_await write(pieces); !sent) co_return sent;
    masked.clear();
  } while (done < payload.size());
  co_return Result<void>();
}

net::awaitable<Result<void>> Connection::write(std::span<iovec> pieces) {
  for (;;) {
    while (!pieces.empty() && pieces.front().iov_len == 0) pieces = pieces.subspan(1);
    if (pieces.empty()) co_return Result<void>();
    if (dropped_) co_return Failure(*failure_);
    const Io io = transport_->try_write(pieces);
    if (io.kind == Io::Kind::Again) {
      if (auto ready = co_await blocked(io.wait_for); !ready) co_return ready;
      continue;
    }
    if (io.kind != Io::Kind::Done) co_return drop(io_failure("send", io.kind == Io::Kind::End ? EPIPE : io.error));
    blocked_since_.reset();
    std::size_t taken = io.bytes;
    for (iovec& part : pieces) {
      const std::size_t used = std::min(taken, part.iov_len);
      part.iov_base = static_cast<char*>(part.iov_base) + used;
      part.iov_len -= used;
      taken -= used;
    }
  }
}

// Waits until the peer takes bytes again; the timer counts from the first of several waits without progress.
net::awaitable<Result<void>> Connection::blocked(Transport::Wait what) {
  struct Forget {  // a writer that gives up is no peer that does not read
    ~Forget() {
      if (!keep) since.reset();
    }
    std::optional<Clock::time_point>& since;
    bool keep = false;
  } forget{blocked_since_};
  if (!blocked_since_) blocked_since_ = Clock::now();
  arm();
  const auto ready = co_await transport_->wait(what);
  if (dropped_) co_return Failure(*failure_);
  forget.keep = ready.has_value();
  if (ready) co_return Result<void>();
  if (co_await is_cancelled()) co_return fail(Code::Cancelled, "websocket: send cancelled");
  co_return drop(peer_gone(ready.error().message));
}

net::awaitable<Result<void>> Connection::await_turn(const QueuePlace& place) {
  while (writers_.front() != &place) {
    if (auto waited = co_await changed(); !waited) co_return waited;
  }
  co_return Result<void>();
}

bool Connection::stage_control() {
  if (control_sent_ < control_.size()) return true;
  control_.clear();
  control_sent_ = 0;
  const auto add = [this](Opcode opcode, std::string_view payload) {
    const Mask mask = role_ == Role::Client ? new_mask() : Mask{};
    append_control_frame(control_, opcode, payload, role_ == Role::Client ? &mask : nullptr);
  };
  if (pong_) add(Opcode::Pong, *pong_);
  if (ping_due_) add(Opcode::Ping, {});
  if (close_due_) add(Opcode::Close, *close_due_);
  pong_.reset();
  ping_due_ = false;
  close_due_.reset();
  if (!control_.empty()) return true;
  control_ = std::string();
  return false;
}

// Sends control frames as far as the socket takes them; for the writer whose turn it is, or when there is none.
Connection::Flush Connection::try_flush(Transport::Wait& what) {
  while (!dropped_ && stage_control()) {
    const iovec rest = piece(std::string_view(control_).substr(control_sent_));
    const Io io = transport_->try_write({&rest, 1});
    if (io.kind == Io::Kind::Again) {
      what = io.wait_for;
      return Flush::Blocked;
    }
    if (io.kind != Io::Kind::Done) {
      drop(io_failure("send", io.kind == Io::Kind::End ? EPIPE : io.error));
      return Flush::Broken;
    }
    blocked_since_.reset();
    control_sent_ += io.bytes;
  }
  return dropped_ ? Flush::Broken : Flush::Clean;
}

net::awaitable<Result<void>> Connection::flush() {
  for (;;) {
    Transport::Wait what{};
    switch (try_flush(what)) {
      case Flush::Clean:
        co_return Result<void>();
      case Flush::Broken:
        co_return Failure(*failure_);
      case Flush::Blocked:
        if (auto ready = co_await blocked(what); !ready) co_return ready;
    }
  }
}

net::awaitable<void> Connection::flush_in_turn() {
  const QueuePlace place(*this);
  if (co_await await_turn(place)) co_await flush();
}

void Connection::poke() {
  Transport::Wait ignored{};
  if (writers_.empty()) try_flush(ignored);
}

// ---- the end

void Connection::queue_close(std::uint16_t code, std::string_view reason) {
  if (close_queued_) return;
  close_queued_ = true;
  if (code != close_code::kNone && !is_sendable_close_code(code)) code = close_code::kInternalError;
  close_due_ = close_payload(code, reason);
}

net::awaitable<void> Connection::close(std::uint16_t code, std::string reason) {
  const Operation operation(*this);
  queue_close(code, reason);
  if (!dropped_) co_await flush_in_turn();
  close_deadline_ = Clock::now() + kCloseWait;
  arm();
  while (!dropped_ && (reading_ || (!peer_closed_ && !input_broken_))) {
    if (reading_) {
      if (!co_await changed()) break;
    } else if (!co_await read()) {
      break;
    }
  }
  if (!dropped_) transport_->shutdown_write();
  // The peer may be in the middle of sending: closing now would reset the connection and lose our close frame.
  if (input_broken_) co_await discard_input();
  drop(Error(Code::Cancelled, "websocket: closed"));
}

net::awaitable<void> Connection::closed() {
  const Operation operation(*this);
  while (!dropped_ && co_await changed()) {
  }
}

void Connection::abort(std::uint16_t code) {
  queue_close(code, {});
  if (!dropped_) poke();
  drop(Error(Code::Cancelled, "websocket: aborted"));
}

net::awaitable<void> Connection::finish() {
  drop(Error(Code::Cancelled, "websocket: closed"));
  while (operations_ > 0) co_await changed();
}

void Connection::detach() {
  drop(Error(Code::Cancelled, "websocket: closed"));
  transport_ = owned_.get();
}

// Operations in progress end with the first error that is given.
Failure Connection::drop(Error error) {
  if (!failure_) failure_ = std::move(error);
  if (!dropped_) {
    dropped_ = true;
    transport_->close();
    timer_.cancel();
    notify();
  }
  return Failure(*failure_);
}

net::awaitable<Result<void>> Connection::changed() {
  co_await wake_.async_wait(net::as_tuple(net::use_awaitable));
  if (co_await is_cancelled()) co_return fail(Code::Cancelled, "websocket: cancelled");
  co_return Result<void>();
}

// ---- time

// With pings of our own a silent socket means a silent peer, however often read() was begun anew; without them it is
// the reader's patience that counts.
std::optional<Connection::Clock::time_point> Connection::silence_ends() const {
  if (!awaiting_input_ || options_.read_timeout.count() == 0) return std::nullopt;
  const auto since = options_.ping_interval.count() > 0 ? last_input_ : std::max(last_input_, read_began_);
  return since + options_.read_timeout;
}

std::optional<Connection::Clock::time_point> Connection::patience_ends() const {
  if (!blocked_since_ || options_.write_timeout.count() == 0) return std::nullopt;
  return *blocked_since_ + options_.write_timeout;
}

Connection::Clock::time_point Connection::next_deadline() const {
  auto when = Clock::time_point::max();
  if (const auto silence = silence_ends()) when = std::min(when, *silence);
  if (const auto patience = patience_ends()) when = std::min(when, *patience);
  if (close_deadline_) when = std::min(when, *close_deadline_);
  if (options_.ping_interval.count() > 0 && !close_queued_) when = std::min(when, next_ping_);
  return when;
}

// Deadlines mostly move away, so the timer is touched only when one comes nearer; a timer that fires early looks again.
void Connection::arm() {
  if (dropped_) return;
  const auto when = next_deadline();
  if (when >= armed_for_) return;
  armed_for_ = when;
  timer_.expires_at(when);
  timer_.async_wait([weak = weak_from_this()](boost::system::error_code ec) {
    if (ec) return;
    if (const auto self = weak.lock()) self->on_timer();
  });
}

void Connection::on_timer() {
  armed_for_ = Clock::time_point::max();
  if (dropped_) return;
  const auto now = Clock::now();
  if (const auto patience = patience_ends(); patience && now >= *patience) {
    drop(Error(Code::Timeout, "websocket: the peer does not read"));
  } else if (close_deadline_ && now >= *close_deadline_) {
    drop(Error(Code::Timeout, "websocket: the peer did not answer the close"));
  } else if (const auto silence = silence_ends(); silence && now >= *silence) {
    drop(Error(Code::Timeout, "websocket: the peer was silent for too long"));
  } else if (options_.ping_interval.count() > 0 && !close_queued_ && now >= next_ping_) {
    // A peer that sends needs no ping.
    const auto quiet = last_input_ + options_.ping_interval;
    if (now >= quiet) {
      ping_due_ = true;
      poke();
    }
    next_ping_ = now >= quiet ? now + options_.ping_interval : quiet;
  }
  arm();
}

}  // namespace osb::http::ws
