#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/task_executor.h"
#include "base/error.h"
#include "base/unique_fd.h"
#include "sys/cgroup.h"
#include "taskexecutor/task_directory.h"

namespace osb::taskexecutor {

using Environment = std::map<std::string, std::string, std::less<>>;

// "KEY=value" strings; of equal names the first wins.
Environment parse_environment(std::span<const std::string> entries);

// The process of the main container whose namespaces and environment a task gets.
struct MainContainer {
  Environment env;
  std::vector<UniqueFd> namespaces;  // in the order in which they are entered
};

// The first process but this one with SANDBOX_MAIN_CONTAINER=`name` in its environment. Code::NotFound if there is
// none. `proc` is for tests.
Result<MainContainer> find_main_container(std::string_view name, const std::string& proc = "/proc");

struct LaunchPlan {
  const api::TaskProcess& process;
  const Environment& env;      // the executor's own
  std::string main_container;  // not empty: sidecar mode
  const std::optional<sys::CommandCgroups>& cgroups;
};

// A task's supervisor.
struct Supervisor {
  UniqueFd pidfd;
  std::string cgroup;  // empty: none
};

// Starts the supervisor and the task. The supervisor is on disk before the task runs, so that no executor starts the
// task twice. Blocks until the task runs, or has failed to.
Result<Supervisor> launch(const LaunchPlan& plan, const TaskDirectory& directory);

// The supervisor of a task that an earlier executor started; nothing if it has ended.
std::optional<Supervisor> find_supervisor(const TaskDirectory& directory);

// Kills the processes that are left in a task's cgroup, and removes it.
void clear_cgroup(const std::string& directory);

}  // namespace osb::taskexecutor
