#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <sys/types.h>

#include "async/net.h"
#include "async/timer.h"
#include "base/error.h"
#include "execd/run/end_reason.h"
#include "execd/run/event_log.h"
#include "execd/run/event_writer.h"
#include "execd/run/output_log.h"
#include "execd/run/run_host.h"
#include "sys/process_tree.h"
#include "sys/spawn.h"

namespace osb::execd {

// How a run ended.
struct RunEnd {
  sys::ExitStatus status;
  bool timed_out = false;
  std::optional<EndReason> reason;  // why it failed, where that is known
  std::chrono::milliseconds took{0};
  std::chrono::system_clock::time_point at;
};

// Variable that every process of a run inherits; it finds those that left the run's process group.
inline constexpr std::string_view kRunIdVariable = "OPENSANDBOX_COMMAND_ID";

struct RunPlan {
  std::string id;                 // value of kRunIdVariable
  std::string init_text;          // text of the init event
  sys::SpawnPlan process;         // environment without kRunIdVariable, descriptors without 1 and 2: those are added
  bool merge_stderr = false;      // one pipe: everything is stdout, in the order it was written
  bool drop_empty_lines = false;  // else an empty line is an event with the text "\n"
  std::chrono::milliseconds timeout{0};  // zero: none
  EventLog::Options log;
  std::shared_ptr<OutputLog> raw;                   // gets every byte as well; may be null
  std::function<void(std::string_view)> on_output;  // sees every byte until the end; may be empty
  // Writes the final event; called once, when all output that was there at the process's end is in the log.
  std::move_only_function<void(const RunEnd&, EventWriter&)> on_end;
};

// A process whose output becomes numbered events: init, output line by line, one final event. It ends when the
// process itself ends; the host drains pipes that its descendants hold open afterwards. A slow reader of the log
// slows the process down (with hold_for_readers). Bytes go from the pipe to the log's memory, readers send from
// there.
class Run : public std::enable_shared_from_this<Run> {
 public:
  Run(RunHost& host, RunPlan plan);
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  // Writes init and starts the process. Where that fails the caller ends the log, see fail().
  Result<void> start();
  // Ends the log of a run that has not been started: init, if that is not there yet, and an error event.
  void fail(std::string_view name, std::string_view value);

  const std::shared_ptr<EventLog>& log() const { return log_; }
  pid_t pid() const { return pid_; }  // -1: never started
  // The process has ended and is freed; its last output may still wait for a slow reader.
  bool exited() const { return exited_; }
  const RunEnd& end() const { return end_; }  // valid once exited()

  // SIGKILL to every process of the run, from another thread; the last event comes when none is left. Nothing happens
  // after exited().
  void kill_tree();
  // SIGTERM to every process of the run; processes left after `grace` get SIGKILL. Returns when all have ended; false,
  // at once, if the process itself had ended already. Clients see an interrupt as the reason; the end of the daemon is
  // no reason.
  enum class StopCause { UserInterrupt, Shutdown };
  net::awaitable<bool> stop(std::chrono::milliseconds grace, StopCause cause);

 private:
  struct Pipe;
  struct Timeout;

  void write_init();
  void arm(Pipe& pipe);
  void on_readable(Pipe& pipe);
  std::size_t consume(Pipe& pipe, std::size_t limit);
  void emit(const Pipe& pipe, std::string_view line);
  void on_room();
  void on_exit(sys::ExitStatus status);
  std::optional<EndReason> reason_of(const sys::ExitStatus& status);
  void take_rest();
  void drain();
  void finish();
  sys::ProcessTree tree() const;

  RunHost& host_;
  RunPlan plan_;
  std::shared_ptr<EventLog> log_;
  EventWriter writer_;
  std::unique_ptr<Pipe> pipes_[2];     // stdout (or both), stderr
  std::unique_ptr<Timeout> timeout_;   // null: none
  std::unique_ptr<Event> exit_event_;  // made by the first waiter
  pid_t pid_ = -1;
  sys::CgroupPool::Lease cgroup_;  // until the process has ended; null: there are none here
  std::chrono::steady_clock::time_point started_;
  bool exited_ = false;
  bool finished_ = false;  // its last event is written
  bool timed_out_ = false;
  bool interrupted_ = false;
  bool killed_by_us_ = false;  // or asked to end by us
  OomKills::Mark oom_mark_;
  int kills_ = 0;         // under way; the end waits for them
  bool blocked_ = false;  // something waits for room in the log
  RunEnd end_;
};

}  // namespace osb::execd
