#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <sys/uio.h>
#include <vector>

#include "async/blocking_pool.h"
#include "async/descriptor.h"
#include "base/error.h"
#include "base/timed_log.h"
#include "base/unique_fd.h"

namespace osb::execd {

// Appends output to a file, every line with its time (base/timed_log.h). A file that takes nothing more, because the
// disk is full or a limit is reached, loses output and never holds its writer up; when it takes something again, a line
// tells how much is missing.
class TimedLogWriter {
 public:
  explicit TimedLogWriter(UniqueFd file) : file_(std::move(file)) {}
  void write(std::string_view bytes, const timespec& now);
  // Lines of their own, also where the file ends in the middle of one.
  void write_lines(std::string_view lines, const timespec& now);

 private:
  bool tell_loss(const LogStamp& stamp);
  std::size_t put(std::vector<iovec>& parts);

  UniqueFd file_;
  bool in_line_ = false;  // the file ends in the middle of a line
  std::uint64_t lost_ = 0;
  int why_ = 0;
};

// Copies the output of the entrypoint and its children from a pipe into a file. The pipe is read by threads of the
// pool, because a disk may be slow. One loop; the pool outlives it.
class EntrypointLog {
 public:
  static Result<std::unique_ptr<EntrypointLog>> open(net::any_io_executor executor, BlockingPool& pool, UniqueFd file);

  // The end for the programs; given away once they have it, so that the pipe ends with the last of them.
  int writer() const { return writer_.get(); }
  void close_writer() { writer_.reset(); }

  // Until the last writer has gone.
  net::awaitable<void> run();
  // Blocks. Everything that was written before the call is in the file when it returns.
  void drain();
  // Blocks. Lines that do not come through the pipe.
  void append(std::string_view lines);

 private:
  EntrypointLog(BlockingPool& pool, Descriptor reader, UniqueFd writer, UniqueFd file)
      : pool_(pool), reader_(std::move(reader)), writer_(std::move(writer)), log_(std::move(file)) {}
  bool copy(std::size_t most);

  BlockingPool& pool_;
  Descriptor reader_;
  UniqueFd writer_;
  std::mutex mutex_;  // run() and drain() meet on threads of the pool
  TimedLogWriter log_;
};

}  // namespace osb::execd
