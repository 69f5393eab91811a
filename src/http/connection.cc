#include "http/connection.h"

#include <algorithm>
#include <cerrno>

namespace osb::http {

Transport::Io Connection::fill_now(std::size_t limit) {
  const std::span<char> room = in.room(limit);
  if (room.empty()) return {.kind = Transport::Io::Kind::Failed, .error = EMSGSIZE};
  const Transport::Io io = transport->try_read(room);
  if (io.kind == Transport::Io::Kind::Done) in.received(io.bytes);
  return io;
}

Failure Connection::fill_failure(int error) {
  if (error == EMSGSIZE) return fail(Code::TooLarge, "message head is too long");
  return Transport::failure("receive", error);
}

net::awaitable<Result<std::size_t>> Connection::fill(std::size_t limit) {
  using Kind = Transport::Io::Kind;
  for (;;) {
    const Transport::Io io = fill_now(limit);
    if (io.kind == Kind::Done || io.kind == Kind::End) co_return io.bytes;
    if (io.kind == Kind::Failed) co_return fill_failure(io.error);
    if (auto ready = co_await transport->wait(io.wait_for); !ready) co_return Failure(ready.error());
  }
}

MessageBody::MessageBody(std::shared_ptr<Connection> connection, Framing framing, Options options)
    : connection_(std::move(connection)), framing_(framing), options_(options), left_(framing.length) {
  if (framing_.kind == Framing::Kind::None) state_ = State::End;
}

Failure MessageBody::broken(Error error) {
  state_ = State::Broken;
  return Failure(std::move(error));
}

std::optional<std::uint64_t> MessageBody::length() const {
  if (framing_.kind == Framing::Kind::None || framing_.kind == Framing::Kind::Length) return framing_.length;
  return std::nullopt;
}

MessageBody::ArrivedChunks MessageBody::arrived_chunks() const {
  ArrivedChunks out;
  ChunkDecoder decoder = chunks_;
  std::string_view rest = connection_->in.data().substr(lent_);
  for (;;) {
    auto step = decoder.step(rest);
    if (!step || step->done) {
      out.end = true;  // broken counts: the reader learns it without waiting
      return out;
    }
    if (step->need_more) return out;
    out.data = out.data || !step->data.empty();
    rest.remove_prefix(step->consumed);
  }
}

bool MessageBody::ready() const {
  if (state_ != State::Reading) return true;
  if (framing_.kind == Framing::Kind::Length && left_ == 0) return true;
  if (connection_->in.size() <= lent_) return false;
  if (framing_.kind != Framing::Kind::Chunked) return true;
  const ArrivedChunks arrived = arrived_chunks();
  return arrived.data || arrived.end;
}

bool MessageBody::cheap_to_finish() const {
  if (options_.send_continue && !touched_) return false;  // the client may never send it
  if (framing_.kind == Framing::Kind::Length) return left_ <= 256 * 1024;
  return framing_.kind == Framing::Kind::Chunked && state_ == State::Reading && arrived_chunks().end;
}

net::awaitable<Result<std::size_t>> MessageBody::more() {
  connection_->transport->set_timeout(options_.stall);
  auto got = co_await connection_->fill(ReadBuffer::kLarge);
  if (!got && got.error().code == Code::Timeout) got = fail(options_.stall_code, "no byte of the body for too long");
  co_return got;
}

std::optional<std::string> MessageBody::take_whole(std::size_t limit) {
  if (framing_.kind == Framing::Kind::None) return std::string();
  if (framing_.kind != Framing::Kind::Length || state_ != State::Reading || left_ != framing_.length) {
    return std::nullopt;
  }
  if (left_ > limit || connection_->in.size() < left_) return std::nullopt;
  const auto length = static_cast<std::size_t>(std::exchange(left_, 0));
  std::string whole(connection_->in.data().substr(0, length));
  connection_->in.consume(length);
  touched_ = true;
  state_ = State::End;
  return whole;
}

std::optional<std::string_view> MessageBody::buffered_piece() {
  if (left_ == 0) {
    state_ = State::End;
    return std::string_view();
  }
  if (connection_->in.empty()) return std::nullopt;
  lent_ = static_cast<std::size_t>(std::min<std::uint64_t>(left_, connection_->in.size()));
  left_ -= lent_;
  return connection_->in.data().substr(0, lent_);
}

net::awaitable<Result<std::string_view>> MessageBody::read() {
  if (lent_ > 0) connection_->in.consume(std::exchange(lent_, 0));
  if (state_ == State::End) co_return std::string_view();
  if (state_ == State::Broken) co_return fail(Code::Unavailable, "the body could not be read");
  if (!touched_) {
    touched_ = true;
    if (options_.send_continue && connection_->in.empty()) {
      auto sent = co_await connection_->transport->write_all("HTTP/1.1 100 Continue\r\n\r\n");
      if (!sent) co_return broken(sent.error());
    }
  }
  switch (framing_.kind) {
    case Framing::Kind::Length:
      co_return co_await read_length();
    case Framing::Kind::Chunked:
      co_return co_await read_chunked();
    case Framing::Kind::UntilClose:
      co_return co_await read_until_close();
    case Framing::Kind::None:
      break;
  }
  co_return std::string_view();
}

net::awaitable<Result<std::string_view>> MessageBody::read_length() {
  if (const auto piece = buffered_piece()) co_return *piece;
  auto got = co_await more();
  if (!got) co_return broken(got.error());
  if (*got == 0) co_return broken(Error(Code::Unavailable, "the connection ended in the middle of a body"));
  co_return *buffered_piece();
}

net::awaitable<Result<std::string_view>> MessageBody::read_chunked() {
  for (;;) {
    auto step = chunks_.step(connection_->in.data());
    if (!step) co_return broken(step.error());
    if (!step->data.empty()) {
      lent_ = step->consumed;
      co_return step->data;
    }
    connection_->in.consume(step->consumed);
    if (step->done) {
      state_ = State::End;
      co_return std::string_view();
    }
    if (!step->need_more) continue;
    auto got = co_await more();
    if (!got) co_return broken(got.error());
    if (*got == 0) co_return broken(Error(Code::Unavailable, "the connection ended in the middle of a chunked body"));
  }
}

net::awaitable<Result<std::string_view>> MessageBody::read_until_close() {
  if (connection_->in.empty()) {
    auto got = co_await more();
    if (!got) co_return broken(got.error());
    if (*got == 0) {
      state_ = State::End;
      co_return std::string_view();
    }
  }
  lent_ = connection_->in.size();
  co_return connection_->in.data();
}

}  // namespace osb::http
