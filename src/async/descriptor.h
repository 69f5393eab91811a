#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "async/net.h"
#include "base/error.h"
#include "base/unique_fd.h"

namespace osb {

// A pipe, terminal, pidfd, eventfd or inotify descriptor on a loop. It becomes non-blocking at the first read or write:
// that flag belongs to the open file, so give it a file that no child shares (each end of a pipe is one of its own).
//
// One reader and one writer at a time. The object stays where it is and alive until its operations have ended: cancel()
// or close() end them with Code::Cancelled, as does cancelling the coroutine.
class Descriptor {
 public:
  // Takes the descriptor; fails for what cannot be waited for.
  static Result<Descriptor> open(net::any_io_executor executor, UniqueFd fd);
  ~Descriptor();
  Descriptor(Descriptor&&) noexcept;
  Descriptor& operator=(Descriptor&&) noexcept;

  // At least one byte, or 0 at the end. The end of a terminal (EIO on the master: no process holds the other side) is
  // an end like any other.
  net::awaitable<Result<std::size_t>> read_some(std::span<char> buffer);
  // The bytes that are there now, without waiting: 0 at the end, Code::Unavailable when a read would wait.
  Result<std::size_t> try_read(std::span<char> buffer);
  // All of it; EPIPE when the other side has gone (SIGPIPE must be ignored in this process).
  net::awaitable<Result<void>> write_all(std::string_view data);
  // For descriptors that are not read as a stream: a pidfd is readable when its process has ended.
  net::awaitable<Result<void>> wait_readable();

  void cancel();
  void close();
  bool is_open() const;
  int fd() const;  // stays owned here
  // Gives the descriptor up, and off the loop; pending operations are cancelled.
  UniqueFd release();

 private:
  struct Impl;
  explicit Descriptor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace osb
