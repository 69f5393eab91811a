#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <sys/types.h>

#include "async/timer.h"
#include "execd/code/code_language.h"
#include "execd/run/environment.h"
#include "execd/run/run_host.h"

namespace osb::execd {

// A process that has loaded the interpreter, the driver and common modules, and from which kernels are forked
// (drivers/prepare.py). A fork takes a few milliseconds where a start takes tens, and kernels share its memory. No code
// of a user runs in it. After an install it ends by itself, and the next start() makes a new one.
//
// The code in a sandbox can stop, kill or change this process. So its answers are foreign input, and a kernel that it
// does not deliver in time is started without it. One thread; everything given to the constructor outlives it.
class PreparedKernel : public std::enable_shared_from_this<PreparedKernel> {
 public:
  PreparedKernel(RunHost& host, const CommandEnvironment& environment, const CodeLanguage& language);
  ~PreparedKernel();
  PreparedKernel(const PreparedKernel&) = delete;
  PreparedKernel& operator=(const PreparedKernel&) = delete;

  // Starts it if there is none. Does nothing after it failed at its start once.
  void start();

  // A kernel: a child of ours that begins its life in `cgroup`; null where there are none.
  struct Forked {
    pid_t pid = -1;
    sys::CgroupPool::Lease cgroup;
  };
  // Nothing: the kernel has to be started, with other descriptors.
  using Done = std::move_only_function<void(std::optional<Forked>)>;
  // `process` is the kernel as spawn() would start it; `run_id` its marker, of as many characters as new_hex_id() has;
  // `descriptors` its socket, code, standard output and error. False: this process is not ready, or an interpreter in
  // that environment starts in another way; `done` is not called.
  bool fork(const sys::SpawnPlan& process, std::string_view run_id, std::span<const int, 4> descriptors, Done done);

  // Ends it and returns when it is gone; there will be no other.
  net::awaitable<void> end();

 private:
  struct Process;
  Result<std::shared_ptr<Process>> spawn();
  void arm(std::shared_ptr<Process> process);
  void on_answer(const std::shared_ptr<Process>& process, std::string_view answer);
  void expect_answer(const std::shared_ptr<Process>& process);
  bool is_kernel(pid_t pid) const;
  void drop();

  RunHost& host_;
  const CommandEnvironment& environment_;
  const CodeLanguage& language_;
  std::shared_ptr<Process> process_;
  Notifier ended_;
  std::size_t processes_ = 0;  // that have not ended
  bool off_ = false;
};

}  // namespace osb::execd
