#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>

#include "async/descriptor.h"
#include "async/net.h"
#include "async/task_group.h"
#include "async/timer.h"
#include "base/error.h"
#include "execd/run/end_reason.h"
#include "execd/run/run_host.h"
#include "sys/process_tree.h"
#include "sys/spawn.h"

namespace osb::execd {

// A shell process behind a terminal or three pipes. Its tasks keep it alive until it has ended and all its output was
// delivered. It has no buffer of its own: output is read when the owner has room.
class PtyShell : public std::enable_shared_from_this<PtyShell> {
 public:
  enum class Mode { Terminal, Pipes };

  // Called on the loop, never after on_end(). Outlives that.
  class Owner {
   public:
    virtual ~Owner() = default;
    // `tag` is the frame type: 1 stdout (or the terminal), 2 stderr. At most 32 KiB.
    virtual void on_output(PtyShell& shell, char tag, std::string_view bytes) = 0;
    // False holds the shell back until room_changed().
    virtual bool has_room() const = 0;
    // The process's pipe or terminal has taken all input up to `offset`.
    virtual void on_input_taken(PtyShell& shell, std::uint64_t offset) = 0;
    virtual void on_input_failed(PtyShell& shell, const Error& error) = 0;
    // The process has ended and its output is complete. Last call.
    virtual void on_end(PtyShell& shell, sys::ExitStatus status, const std::optional<EndReason>& reason) = 0;
  };

  // Starts it. `process`: program, arguments, environment and cwd. The caller keeps `owner` alive by `keep`.
  static Result<std::shared_ptr<PtyShell>> start(RunHost& host, TaskGroup& tasks, Mode mode, sys::SpawnPlan process,
                                                 Owner& owner, std::shared_ptr<void> keep);
  ~PtyShell();
  PtyShell(const PtyShell&) = delete;
  PtyShell& operator=(const PtyShell&) = delete;

  // Queues input; returns when no more than a bounded amount waits. Input for a shell that has ended is dropped.
  net::awaitable<void> input(std::string bytes);
  // Pipes: the process sees the end of its input behind what was queued; further input is dropped. Nothing for a
  // terminal, where the end is a character that is typed.
  void end_input();
  // How much input was queued so far.
  std::uint64_t input_offset() const { return input_accepted_; }
  void room_changed() { changed_.notify_all(); }
  // To the shell's process group.
  void signal(int number);
  void resize(int columns, int rows);
  // SIGKILL to the shell and everything that came out of it; returns when that has happened.
  net::awaitable<void> kill();
  // Until on_end() has been called.
  net::awaitable<void> ended();

 private:
  PtyShell(RunHost& host, Mode mode, Owner& owner, std::shared_ptr<void> keep);
  Result<void> open(sys::SpawnPlan& process, UniqueFd (&child)[3]);
  net::awaitable<bool> room();
  net::awaitable<void> pump(Descriptor& from, char tag);
  net::awaitable<void> deliver(Descriptor& from, char tag, std::size_t bytes);
  net::awaitable<void> feed_input();
  net::awaitable<void> supervise();
  void on_exit(sys::ExitStatus status);
  Descriptor& input_file() { return stdin_ ? *stdin_ : *output_; }

  RunHost& host_;
  const Mode mode_;
  Owner* owner_;  // null after on_end()
  std::shared_ptr<void> keep_;
  Notifier changed_;  // room, input, exit, end of a pump
  pid_t pid_ = -1;
  std::string marker_;
  sys::CgroupPool::Lease cgroup_;  // until the process has ended; null: there are none here
  // Terminal: output_ is the master, for both directions.
  std::optional<Descriptor> stdin_, output_, stderr_;
  std::deque<std::string> input_;  // as it came: each piece is written and reported by itself
  std::size_t input_waiting_ = 0;  // bytes in it
  std::uint64_t input_accepted_ = 0;
  bool input_ended_ = false;
  OomKills::Mark oom_mark_;
  bool killed_by_us_ = false;
  std::optional<sys::ExitStatus> status_;
  std::optional<EndReason> reason_;
  int pumps_ = 0;
  bool closed_ = false;
};

}  // namespace osb::execd
