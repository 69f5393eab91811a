#include "http/splice.h"

#include <csignal>
#include <fcntl.h>
#include <optional>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

#include "async/race.h"

namespace osb::http {
namespace {

using Io = Transport::Io;

constexpr int kPipeBytes = 256 * 1024;

// The peer of the other connection has to learn that bytes are missing: a plain close would look like an orderly end.
void reset(Transport& transport) {
  const linger now{.l_onoff = 1, .l_linger = 0};
  if (transport.native_fd() >= 0) ::setsockopt(transport.native_fd(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
  transport.close();
}

// One direction of a splice.
class Direction {
 public:
  Direction(Transport& from, Transport& to, PipePool& pipes, std::uint64_t& moved)
      : from_(from), to_(to), pipes_(pipes), moved_(moved) {}
  Direction(const Direction&) = delete;
  Direction& operator=(const Direction&) = delete;
  ~Direction() { lay_down(); }

  net::awaitable<void> run() {
    for (;;) {
      if (!pipe_ && !take_up()) co_return broken();
      const Io io =
          from_.try_splice_to(pipe_->write.get(), kPipeBytes).value_or(Io{.kind = Io::Kind::Failed, .error = ENOTSUP});
      if (io.kind == Io::Kind::Done) {
        in_pipe_ = io.bytes;
        if (!co_await empty_pipe()) co_return broken();
      } else if (io.kind == Io::Kind::Again) {
        lay_down();
        if (!co_await from_.wait(io.wait_for)) co_return broken();
      } else if (io.kind == Io::Kind::End) {
        co_return to_.shutdown_write();
      } else {
        co_return broken();
      }
    }
  }

 private:
  net::awaitable<bool> empty_pipe() {
    while (in_pipe_ > 0) {
      const Io io =
          to_.try_splice_from(pipe_->read.get(), in_pipe_).value_or(Io{.kind = Io::Kind::Failed, .error = ENOTSUP});
      if (io.kind == Io::Kind::Again) {
        if (!co_await to_.wait(io.wait_for)) co_return false;
        continue;
      }
      if (io.kind != Io::Kind::Done || io.bytes == 0) co_return false;
      in_pipe_ -= io.bytes;
      moved_ += io.bytes;
    }
    co_return true;
  }

  bool take_up() {
    auto pipe = pipes_.take();
    if (pipe) pipe_.emplace(std::move(*pipe));
    return pipe.has_value();
  }
  void lay_down() {
    if (pipe_ && in_pipe_ == 0) pipes_.give_back(std::move(*pipe_));
    pipe_.reset();
  }
  void broken() {
    reset(from_);
    reset(to_);
  }

  Transport& from_;
  Transport& to_;
  PipePool& pipes_;
  std::uint64_t& moved_;
  std::optional<sys::Pipe> pipe_;
  std::size_t in_pipe_ = 0;
};

}  // namespace

PipePool::PipePool(std::size_t most_idle) : most_idle_(most_idle) {
  static const bool ignored = std::signal(SIGPIPE, SIG_IGN) != SIG_ERR;
  static_cast<void>(ignored);
}

Result<sys::Pipe> PipePool::take() {
  if (!idle_.empty()) {
    sys::Pipe pipe = std::move(idle_.back());
    idle_.pop_back();
    return pipe;
  }
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0) return sys::from_errno("pipe", errno);
  ::fcntl(ends[1], F_SETPIPE_SZ, kPipeBytes);  // the usual size will do too
  return sys::Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

void PipePool::give_back(sys::Pipe pipe) {
  if (idle_.size() < most_idle_) idle_.push_back(std::move(pipe));
}

net::awaitable<SplicedBytes> splice(Transport& first, Transport& second, PipePool& pipes) {
  using namespace race;
  SplicedBytes moved;
  Direction out(first, second, pipes, moved.to_second);
  Direction back(second, first, pipes, moved.to_first);
  co_await (out.run() && back.run());
  co_return moved;
}

}  // namespace osb::http
