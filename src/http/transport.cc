#include "http/transport.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <vector>

#include <boost/asio/this_coro.hpp>

#include "http/finish_connect.h"
#include "http/reactor.h"
#include "http/socket_address.h"
#include "sys/syscall.h"

namespace osb::http {
namespace {

using SteadyClock = std::chrono::steady_clock;
using Io = Transport::Io;

Io failed(int error) { return {.kind = Io::Kind::Failed, .error = error}; }
Io again(Transport::Wait what) { return {.kind = Io::Kind::Again, .wait_for = what}; }
Io done(std::size_t bytes) { return {.kind = Io::Kind::Done, .bytes = bytes}; }

class PlainTransport final : public Transport {
 public:
  PlainTransport(net::any_io_executor executor, UniqueFd socket)
      : executor_(std::move(executor)),
        reactor_(net::use_service<Reactor>(net::query(executor_, net::execution::context))),
        socket_(std::move(socket)) {
    ::fcntl(socket_.get(), F_SETFL, ::fcntl(socket_.get(), F_GETFL) | O_NONBLOCK);
    const int on = 1;
    ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // fails harmlessly on Unix sockets
    reactor_.add(socket_.get(), *entry_);
  }
  ~PlainTransport() override { PlainTransport::close(); }

  Io try_read(std::span<char> into) override {
    if (!socket_) return failed(ECONNABORTED);
    if (!entry_->readable) return again(Wait::Readable);
    for (;;) {
      const ssize_t n = ::recv(socket_.get(), into.data(), into.size(), 0);
      if (n > 0) {
        // Edge-triggered: less than asked for means the queue is empty and the next byte will wake us, unless the
        // peer's end of stream has been announced already.
        if (static_cast<std::size_t>(n) < into.size() && !entry_->hangup) entry_->no_more_to_read();
        return done(static_cast<std::size_t>(n));
      }
      if (n == 0) return {.kind = Io::Kind::End};
      if (errno == EINTR) continue;
      if (errno != EAGAIN) return failed(errno);
      entry_->no_more_to_read();
      return again(Wait::Readable);
    }
  }

  Io try_write(std::span<const iovec> pieces) override {
    if (!socket_) return failed(ECONNABORTED);
    if (!entry_->writable) return again(Wait::Writable);
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(pieces.data());
    message.msg_iovlen = std::min<std::size_t>(pieces.size(), 64);
    for (;;) {
      // One piece is the usual case, and the kernel has less to check then.
      const ssize_t n = pieces.size() == 1 ? ::send(socket_.get(), pieces[0].iov_base, pieces[0].iov_len, MSG_NOSIGNAL)
                                           : ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
      if (n >= 0) return done(static_cast<std::size_t>(n));
      if (errno == EINTR) continue;
      if (errno != EAGAIN) return failed(errno);
      entry_->no_more_room();
      return again(Wait::Writable);
    }
  }

  std::optional<Io> try_send_file(int file, std::uint64_t& offset, std::size_t count) override {
    if (!socket_) return failed(ECONNABORTED);
    if (!entry_->writable) return again(Wait::Writable);
    for (;;) {
      off_t position = static_cast<off_t>(offset);
      const ssize_t n = ::sendfile(socket_.get(), file, &position, count);
      if (n > 0) {
        offset = static_cast<std::uint64_t>(position);
        return done(static_cast<std::size_t>(n));
      }
      if (n == 0) return Io{.kind = Io::Kind::End};
      if (errno == EINTR) continue;
      if (errno == EINVAL || errno == ENOSYS) return std::nullopt;  // a file system without sendfile
      if (errno != EAGAIN) return failed(errno);
      entry_->no_more_room();
      return again(Wait::Writable);
    }
  }

  std::optional<Io> try_splice_to(int pipe, std::size_t count) override {
    if (!socket_) return failed(ECONNABORTED);
    if (!entry_->readable) return again(Wait::Readable);
    for (;;) {
      const ssize_t n = ::splice(socket_.get(), nullptr, pipe, nullptr, count, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
      if (n > 0) return done(static_cast<std::size_t>(n));
      if (n == 0) return Io{.kind = Io::Kind::End};
      if (errno == EINTR) continue;
      if (errno != EAGAIN) return failed(errno);
      entry_->no_more_to_read();
      return again(Wait::Readable);
    }
  }

  std::optional<Io> try_splice_from(int pipe, std::size_t count) override {
    if (!socket_) return failed(ECONNABORTED);
    if (!entry_->writable) return again(Wait::Writable);
    for (;;) {
      const ssize_t n = ::splice(pipe, nullptr, socket_.get(), nullptr, count, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
      if (n >= 0) return done(static_cast<std::size_t>(n));
      if (errno == EINTR) continue;
      if (errno != EAGAIN) return failed(errno);
      entry_->no_more_room();
      return again(Wait::Writable);
    }
  }

  void shutdown_write() override { ::shutdown(socket_.get(), SHUT_WR); }

  void close() override {
    if (!socket_) return;
    reactor_.remove(*entry_);
    socket_.reset();
  }

  net::awaitable<Result<void>> wait(Wait what) override { return reactor_.wait(entry_, what == Wait::Readable); }

  void set_deadline(std::optional<SteadyClock::time_point> when) override {
    entry_->deadline = when;
    if (when) reactor_.deadline_changed(*entry_);
  }

  void on_hangup(std::move_only_function<void()> then) override {
    if (then && entry_->hangup) {
      then();
    } else {
      entry_->on_hangup = std::move(then);
    }
  }

  // The socket is connecting: only an edge from now on tells that it is done.
  void expect_connect() { entry_->writable = false; }

  std::string peer() const override { return peer_name(socket_.get()); }
  int native_fd() const override { return socket_.get(); }
  net::any_io_executor executor() override { return executor_; }

 private:
  net::any_io_executor executor_;
  Reactor& reactor_;
  UniqueFd socket_;
  std::shared_ptr<Reactor::Entry> entry_ = std::make_shared<Reactor::Entry>();
};

}  // namespace

std::optional<Io> Transport::try_splice_to(int, std::size_t) { return std::nullopt; }
std::optional<Io> Transport::try_splice_from(int, std::size_t) { return std::nullopt; }

Failure Transport::failure(const char* what, int error) {
  return Failure(Error(Code::Unavailable, std::string(what) + ": " + std::generic_category().message(error), error));
}

void Transport::set_timeout(std::optional<std::chrono::milliseconds> from_now) {
  if (from_now && from_now->count() > 0) {
    set_deadline(Reactor::now() + *from_now);
  } else {
    set_deadline(std::nullopt);
  }
}

net::awaitable<Result<std::size_t>> Transport::read_some(std::span<char> into) {
  for (;;) {
    const Io io = try_read(into);
    switch (io.kind) {
      case Io::Kind::Done:
        co_return io.bytes;
      case Io::Kind::End:
        co_return std::size_t{0};
      case Io::Kind::Failed:
        co_return failure("receive", io.error);
      case Io::Kind::Again:
        if (auto ready = co_await wait(io.wait_for); !ready) co_return Failure(ready.error());
    }
  }
}

Io Transport::write_now(std::span<iovec>& left) {
  while (!left.empty() && left.back().iov_len == 0) left = left.first(left.size() - 1);
  for (;;) {
    while (!left.empty() && left.front().iov_len == 0) left = left.subspan(1);
    if (left.empty()) return done(0);
    const Io io = try_write(left);
    if (io.kind != Io::Kind::Done) return io;
    std::size_t taken = io.bytes;
    while (!left.empty() && taken >= left.front().iov_len) {
      taken -= left.front().iov_len;
      left = left.subspan(1);
    }
    if (left.empty()) return done(0);
    left.front().iov_base = static_cast<char*>(left.front().iov_base) + taken;
    left.front().iov_len -= taken;
  }
}

net::awaitable<Result<void>> Transport::write_all(std::span<iovec> left) {
  for (;;) {
    const Io io = write_now(left);
    if (io.kind == Io::Kind::Done) co_return Result<void>();
    if (io.kind == Io::Kind::Failed) co_return failure("send", io.error);
    if (io.kind == Io::Kind::End) co_return failure("send", EPIPE);
    if (auto ready = co_await wait(io.wait_for); !ready) co_return Failure(ready.error());
  }
}

net::awaitable<Result<void>> Transport::write_all(std::string_view bytes) {
  iovec piece{const_cast<char*>(bytes.data()), bytes.size()};
  co_return co_await write_all(std::span(&piece, 1));
}

net::awaitable<Result<void>> Transport::send_file(int file, std::uint64_t offset, std::uint64_t count) {
  constexpr std::size_t kAtOnce = 1 << 20;
  std::vector<char> copy;  // only where the transport cannot do it by itself
  const std::uint64_t end = offset + count;
  while (offset < end) {
    const std::size_t want = std::min<std::uint64_t>(kAtOnce, end - offset);
    const std::optional<Io> io = copy.empty() ? try_send_file(file, offset, want) : std::nullopt;
    if (!io) {
      copy.resize(256 * 1024);
      const ssize_t n = ::pread(file, copy.data(), std::min(want, copy.size()), static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) co_return failure("read file", errno);
      if (n == 0) co_return fail(Code::Internal, "the file became shorter while it was sent");
      if (auto sent = co_await write_all(std::string_view(copy.data(), static_cast<std::size_t>(n))); !sent) {
        co_return Failure(sent.error());
      }
      offset += static_cast<std::uint64_t>(n);
      continue;
    }
    if (io->kind == Io::Kind::Failed) co_return failure("send file", io->error);
    if (io->kind == Io::Kind::End) co_return fail(Code::Internal, "the file became shorter while it was sent");
    if (io->kind == Io::Kind::Again) {
      if (auto ready = co_await wait(io->wait_for); !ready) co_return Failure(ready.error());
    }
  }
  co_return Result<void>();
}

std::unique_ptr<Transport> make_plain_transport(net::any_io_executor executor, UniqueFd socket) {
  return std::make_unique<PlainTransport>(std::move(executor), std::move(socket));
}

net::awaitable<Result<std::unique_ptr<Transport>>> finish_connect(UniqueFd socket, std::string name,
                                                                  std::chrono::milliseconds timeout) {
  auto transport = make_plain_transport(co_await net::this_coro::executor, std::move(socket));
  transport->set_timeout(timeout);
  static_cast<PlainTransport*>(transport.get())->expect_connect();
  if (auto ready = co_await transport->wait(Transport::Wait::Writable); !ready) {
    co_return with_context("connect " + name, ready.error());
  }
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(transport->native_fd(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) {
    co_return Failure(
        Error(Code::Unavailable, "connect " + name + ": " + std::generic_category().message(error), error));
  }
  transport->set_deadline(std::nullopt);
  co_return transport;
}

net::awaitable<Result<std::unique_ptr<Transport>>> connect_plain(Address address, std::chrono::milliseconds timeout) {
  auto target = to_sockaddr(address);
  if (!target) co_return Failure(target.error());
  UniqueFd socket(::socket(target->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) co_return sys::from_errno("socket", errno);
  const int rc = ::connect(socket.get(), target->get(), target->length);
  if (rc < 0 && errno != EINPROGRESS) {
    co_return Failure(Error(Code::Unavailable,
                            "connect " + address.to_string() + ": " + std::generic_category().message(errno), errno));
  }
  if (rc < 0) co_return co_await finish_connect(std::move(socket), address.to_string(), timeout);
  co_return make_plain_transport(co_await net::this_coro::executor, std::move(socket));
}

}  // namespace osb::http
