#pragma once

#include <list>
#include <optional>
#include <string>
#include <vector>

#include "api/lifecycle_hooks.h"
#include "async/task_group.h"
#include "base/cron.h"
#include "execd/hook/hook_run.h"
#include "execd/hook/startup_status.h"

namespace osb::execd {

// The hooks of a sandbox (OPENSANDBOX_LIFECYCLE): preStart before the entrypoint, then the periodic ones beside it,
// each at its times. Runs of one hook never overlap: a run that comes due while the last one is under way is skipped. A
// run that came due while the sandbox was paused happens once, when the sandbox goes on. One loop; what it is given
// outlives it.
class Hooks {
 public:
  // `lifecycle`: the variable's value; empty: no hooks.
  Hooks(RunHost& host, const CommandEnvironment& environment, std::string lifecycle, HookOutput output,
        StartupStatus status);

  // Before begin(): these hooks, as JSON, instead of those of the variable. After an error it has those that it had.
  Result<void> replace(std::string lifecycle);
  // Whether begin() has anything to do.
  bool any() const { return !text_.empty() || status_.wanted(); }
  // Reads the hooks and runs preStart. A failure means that nothing of the sandbox may start.
  net::awaitable<HookEnd> begin();
  // From now on the periodic hooks run at their times, until shutdown().
  void start_periodic();
  // Nothing is due any more. Processes of hooks that run are ended with all others, see end_processes().
  net::awaitable<void> shutdown();

 private:
  struct Periodic {
    HookCommand command;
    CronSchedule schedule;
    TimeZone zone;
  };
  Result<void> read();
  net::awaitable<HookEnd> run_pre_start();
  net::awaitable<void> repeat(const Periodic& hook);
  net::awaitable<HookEnd> run_one(HookCommand command);

  RunHost& host_;
  const CommandEnvironment& environment_;
  std::string text_;
  const HookOutput output_;
  const StartupStatus status_;
  std::optional<HookCommand> pre_start_;
  std::vector<Periodic> periodic_;
  std::list<HookRun> running_;
  bool closing_ = false;
  TaskGroup tasks_;
};

}  // namespace osb::execd
