#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "async/net.h"
#include "base/error.h"
#include "http/transport.h"
#include "sys/syscall.h"

namespace osb::http {

// Empty pipes, for splices to borrow while bytes move: an idle connection holds none. The kernel raises SIGPIPE when
// bytes are spliced to a peer that has left, so the first pool makes the process ignore that signal.
class PipePool {
 public:
  explicit PipePool(std::size_t most_idle = 32);

  Result<sys::Pipe> take();
  void give_back(sys::Pipe pipe);  // empty
  std::size_t idle() const { return idle_.size(); }

 private:
  std::size_t most_idle_;
  std::vector<sys::Pipe> idle_;
};

struct SplicedBytes {
  std::uint64_t to_first = 0;
  std::uint64_t to_second = 0;
};

// Moves bytes between two plain transports, in both directions and without copying them, until both peers have ended
// their sides. The end of one side is passed on and the other direction goes on; a connection that breaks breaks the
// other one. Both transports and the pool outlive the call; deadlines are the caller's.
net::awaitable<SplicedBytes> splice(Transport& first, Transport& second, PipePool& pipes);

}  // namespace osb::http
