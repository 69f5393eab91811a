#pragma once

#include <span>
#include <string_view>

#include <boost/asio/posix/stream_descriptor.hpp>

#include "async/net.h"
#include "base/error.h"
#include "base/unique_fd.h"
#include "sys/syscall.h"

namespace osb::execd {

// A pipe for a process's output. Only our end does not block: the writers' end is another open file, which children
// expect to be blocking.
Result<sys::Pipe> make_output_pipe();

// Our end of it. A reader that must wait for room in its log sets `blocked` and waits for that instead of for bytes.
struct OutputPipe {
  OutputPipe(const net::any_io_executor& executor, UniqueFd read_end, bool stderr_events)
      : file(executor, read_end.release()), is_stderr(stderr_events) {}

  // Calls `handler(error_code)` when there is something to read, or the pipe has been closed or cancelled.
  template <typename Handler>
  void wait(Handler handler) {
    file.async_wait(net::posix::stream_descriptor::wait_read, std::move(handler));
  }
  // Reads once, at most `limit` bytes, into `buffer`; closes the pipe at its end. Empty: there was nothing.
  std::string_view read(std::span<char> buffer, std::size_t limit);
  // Sets `left` to what is in the pipe now.
  void count_rest();
  // Takes `left` bytes with `consume(limit)`, which returns how much it took. False: `congested()` said stop.
  template <typename Congested, typename Consume>
  bool take_rest(Congested congested, Consume consume) {
    while (left > 0 && file.is_open()) {
      if (congested()) return false;
      const std::size_t taken = consume(left);
      left = taken > 0 ? left - taken : 0;
    }
    return true;
  }

  net::posix::stream_descriptor file;
  const bool is_stderr;
  bool large = false;
  bool blocked = false;
  std::size_t left = 0;  // bytes that count_rest() found and that are not read yet
};

}  // namespace osb::execd
