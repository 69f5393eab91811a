#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "async/blocking_pool.h"
#include "async/child_reaper.h"
#include "async/task_group.h"
#include "async/timer.h"
#include "base/clock.h"
#include "execd/init/entrypoint_log.h"
#include "execd/init/exit_record.h"
#include "execd/path/path.h"

namespace osb::execd {

// The user's program, in a session of its own: started once, watched, recorded, never started again. One thread; the
// reaper and the pool outlive it, and it outlives the loop's last turn.
class Entrypoint {
 public:
  struct Plan {
    std::vector<std::string> argv;  // the first is looked up in PATH
    std::string log;                // file (open_given) that its output is appended to; empty: our stdout and stderr
    bool log_times = false;         // every line in the log has its time in front (base/timed_log.h)
    std::string exit_dir;           // directory (open_given) that the record goes to; empty: nowhere
    const Clock* clock = &system_clock();
  };
  Entrypoint(net::any_io_executor executor, ChildReaper& reaper, BlockingPool& pool, Plan plan);

  // A program that cannot be started has ended as in a shell: 127 not found, 126 otherwise, with the reason recorded.
  // Nothing happens after refuse(), or after a signal came first.
  void start(const Environment& env);
  // Instead of start(): a lifecycle hook has ended with `code` and says why.
  void refuse(int code, std::string why);

  bool begun() const { return begun_; }  // started, or refused
  bool running() const { return pid_ > 0; }
  // To its process group; nothing happens when it has ended. One that was not started yet has ended by this signal.
  void signal(int number);
  // Appends whole lines, which are not the program's own, where its output goes, in order. Lines are lost where output
  // cannot be written for so long that a mebibyte of them waits.
  void append(std::string lines);
  // Returns when every line of append() so far has been written, so that lines of the program come after them.
  net::awaitable<void> lines_written();
  // Set once it has ended and its output and the record have been written (or could not be).
  const std::optional<ExitRecord>& record() const { return record_; }
  // True: ended and recorded. False: cancelled.
  net::awaitable<bool> ended() { return recorded_.wait(); }
  // Until what its children have written is in the log as well; a disk that hangs is not waited for longer.
  net::awaitable<void> flush_log(std::chrono::milliseconds limit);

 private:
  Result<pid_t> spawn(const Environment& env);
  Result<void> open_log();
  void write_lines();
  void finish(ExitRecord record);

  net::any_io_executor executor_;
  ChildReaper& reaper_;
  BlockingPool& pool_;
  const Plan plan_;
  std::unique_ptr<EntrypointLog> log_;  // with log_times
  UniqueFd file_;                       // without
  std::mutex writing_, lines_mutex_;
  std::string lines_;  // of append(), on their way to a thread of the pool
  bool begun_ = false;
  pid_t pid_ = -1;
  std::optional<ExitRecord> record_;
  Event recorded_, flushed_;
  TaskGroup tasks_;
};

}  // namespace osb::execd
