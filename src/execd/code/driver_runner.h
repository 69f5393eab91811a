#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <sys/types.h>

#include "async/timer.h"
#include "execd/code/code_language.h"
#include "execd/code/code_runner.h"
#include "execd/code/driver_protocol.h"
#include "execd/code/prepared_kernel.h"
#include "execd/run/end_reason.h"
#include "execd/run/run_host.h"
#include "sys/process_tree.h"

namespace osb::execd {

// A runner that needs the language in the image and nothing else: a child process with a driver of ours, in a cgroup of
// its own. Standard output and error are pipes, so what subprocesses and libraries print counts too; everything else
// goes over a socket (driver_protocol.h).
//
// A driver writes output first and its message about it afterwards. So when a message has come, what is in the pipes
// now belongs in front of it. A reader of the events that does not keep up leaves the pipes full, which holds the code
// back. Output between two cells has no run that it could belong to, and is dropped.
class DriverRunner final : public CodeRunner, public std::enable_shared_from_this<DriverRunner> {
 public:
  // The beginning of a runner: its process, driver and prepared kernel.
  struct Start {
    sys::SpawnPlan process;  // has the program, the environment and the directory; the descriptors are added here
    std::string_view driver;
    PreparedKernel* prepared = nullptr;  // it is forked from this one where that can be
    // Called once, before any code has run: it takes code, with the data of its message; or has ended (null).
    std::function<void(const std::map<std::string, std::string>*)> on_ready;
  };
  static Result<std::shared_ptr<CodeRunner>> start(RunHost& host, const CodeLanguage& language, Start start);
  ~DriverRunner() override;

  net::awaitable<Result<void>> ready(std::chrono::milliseconds limit) override;
  bool alive() const override { return !exited_ && kill_reason_.empty(); }
  std::string end_text() const override;
  void run(std::shared_ptr<Cell> cell, std::string_view code, const RunSettings& settings) override;
  void interrupt() override;
  void kill(std::string why) override;
  net::awaitable<void> wait_gone() override;

 private:
  struct Pipe;
  struct Io;
  DriverRunner(RunHost& host, const CodeLanguage& language);

  // The child's ends of what connects it with us.
  struct Ends {
    UniqueFd socket;
    UniqueFd output[2];
    UniqueFd answers;
  };
  Result<Ends> connect();
  bool fork(PreparedKernel& prepared, const sys::SpawnPlan& process);
  Result<void> spawn(sys::SpawnPlan process, std::string_view driver);
  void adopt(pid_t pid, sys::CgroupPool::Lease cgroup);
  void fail_start(std::string why);
  void request_run();
  Result<void> put_code(std::string_view head, std::string_view code);
  bool send(std::string_view line);
  void begin_interrupt();
  void send_interrupt();
  void interrupt_later(std::chrono::milliseconds delay);

  void arm(Pipe& pipe);
  void on_readable(Pipe& pipe);
  std::size_t consume(Pipe& pipe, std::size_t limit);
  void sink(Pipe& pipe, std::string_view bytes);
  void emit_held(Pipe& pipe, bool all);
  void hold_for_a_moment();

  void arm_socket();
  std::size_t read_socket();
  void expect_exit();
  void take_messages();
  bool drain();
  void handle(DriverMessage message);
  void end_cell();

  bool congested() const;
  void on_room();
  void on_exit(sys::ExitStatus status);
  void after_exit();
  void close();
  void kill_all();
  sys::ProcessTree tree() const;
  bool has_ended() const;

  RunHost& host_;
  const CodeLanguage& language_;
  const std::string marker_;
  std::unique_ptr<Io> io_;
  pid_t pid_ = -1;  // as long as a fork is on its way
  std::uint64_t start_time_ = 0;
  sys::CgroupPool::Lease cgroup_;
  DriverFrameDecoder decoder_;
  std::deque<DriverMessage> messages_;  // wait until the output before them is taken
  std::string startup_text_;            // what came before it was ready, for the message if it never is
  std::function<void(const std::map<std::string, std::string>*)> on_ready_;
  std::shared_ptr<Cell> cell_;    // null: idle
  std::size_t code_head_ = 0;     // bytes in front of its code
  std::uint64_t interrupts_ = 0;  // sent so far
  Notifier changed_;
  std::string kill_reason_;
  std::string start_error_;  // why there is no process
  sys::ExitStatus status_;
  OomKills::Mark oom_mark_;          // when the run began, or the process where none has
  std::optional<EndReason> reason_;  // why the process ended, where that is known
  bool ready_ = false;
  bool started_ = false;           // an interrupt reaches the cell's code
  bool deaf_once_ = false;         // the cell's code has come to its end, or to where it waits
  bool interrupt_wanted_ = false;  // not sent yet
  bool blocked_ = false;           // something waits for room in the log
  bool exited_ = false;            // the process itself has ended
  bool no_more_ = false;           // and so have all others of its tree: nothing new comes
  bool gone_ = false;              // and everything is closed
};

}  // namespace osb::execd
