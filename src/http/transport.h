#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <sys/uio.h>

#include "async/net.h"
#include "base/error.h"
#include "base/unique_fd.h"

namespace osb::http {

// A byte stream to one peer: TCP or a Unix socket (transport.cc), TLS (module tls). The try_ calls never block and
// never suspend; wait() suspends until the next try is worthwhile. Everything else is built on these. A transport on
// top of another (TLS) does its I/O through the inner one's try_ calls: the readiness bookkeeping lives there.
class Transport {
 public:
  enum class Wait { Readable, Writable };
  struct Io {
    enum class Kind { Done, End, Again, Failed } kind;
    std::size_t bytes = 0;           // Done
    Wait wait_for = Wait::Readable;  // Again: TLS may have to write before it can read
    int error = 0;                   // Failed: errno
  };

  virtual ~Transport() = default;

  virtual Io try_read(std::span<char> into) = 0;
  virtual Io try_write(std::span<const iovec> pieces) = 0;
  // Sends from a file without copying through user space. Nothing: this transport cannot (TLS).
  virtual std::optional<Io> try_send_file(int file, std::uint64_t& offset, std::size_t count) = 0;
  // Moves received bytes into a pipe, or bytes from a pipe to the peer, without copying them through user space. The
  // pipe must be empty before the first and hold `count` bytes before the second. Nothing: this transport cannot (TLS).
  virtual std::optional<Io> try_splice_to(int pipe, std::size_t count);
  virtual std::optional<Io> try_splice_from(int pipe, std::size_t count);
  // Sends end-of-stream; reading goes on.
  virtual void shutdown_write() = 0;
  // Ends it in both directions; waiting calls return at once. Safe to call at any time and more than once.
  virtual void close() = 0;
  // Suspends until the socket is ready, closed, or the deadline has passed (Code::Timeout).
  virtual net::awaitable<Result<void>> wait(Wait what) = 0;  // one waiter per direction
  // A coarse deadline (about a second late at most) for the waits that follow; nothing: none.
  virtual void set_deadline(std::optional<std::chrono::steady_clock::time_point> when) = 0;
  void set_timeout(std::optional<std::chrono::milliseconds> from_now);
  // Calls `then` once, when the peer has ended its side or the connection has broken: at once, or from the loop before
  // any waiter runs. Unread bytes do not delay it. Costs no system call. One at a time; an empty `then` removes it.
  // `then` may close transports and set deadlines, not destroy them.
  virtual void on_hangup(std::move_only_function<void()> then) = 0;
  // The peer's IP address, or "unix".
  virtual std::string peer() const = 0;
  virtual int native_fd() const = 0;
  virtual net::any_io_executor executor() = 0;

  // Writes what the kernel takes without waiting: Done when that was everything, which is the usual case and saves a
  // coroutine; otherwise what stopped it, and `left` is what remains.
  Io write_now(std::span<iovec>& left);

  // Reads at least one byte; 0 means the peer ended its side. The span must stay valid meanwhile.
  net::awaitable<Result<std::size_t>> read_some(std::span<char> into);
  // Writes all of it. The pieces must stay valid meanwhile; they are used up.
  net::awaitable<Result<void>> write_all(std::span<iovec> pieces);
  net::awaitable<Result<void>> write_all(std::string_view bytes);
  // A failed Io as an error for callers.
  static Failure failure(const char* what, int error);
  net::awaitable<Result<void>> send_file(int file, std::uint64_t offset, std::uint64_t count);
};

// A connected TCP or Unix stream socket; made non-blocking here, TCP_NODELAY set where it applies.
std::unique_ptr<Transport> make_plain_transport(net::any_io_executor executor, UniqueFd socket);

// Where to listen or connect without name resolution.
struct Address {
  static Result<Address> parse(std::string_view text);  // "127.0.0.1:8080", "[::1]:8080", "unix:/run/x.sock"
  static Address tcp(std::string ip, std::uint16_t port) { return {std::move(ip), port, {}}; }
  static Address unix_socket(std::string path) { return {{}, 0, std::move(path)}; }
  std::string ip;
  std::uint16_t port = 0;
  std::string unix_path;  // not empty: a Unix socket
  std::string to_string() const;
};

// Connects within `timeout`.
net::awaitable<Result<std::unique_ptr<Transport>>> connect_plain(Address address, std::chrono::milliseconds timeout);

}  // namespace osb::http
