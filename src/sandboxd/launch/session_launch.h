#pragma once

#include <linux/filter.h>
#include <span>
#include <sys/types.h>
#include <vector>

#include "base/error.h"

namespace osb::sandboxd {

// An isolated session inside a sandbox. All descriptors belong to the caller.
struct SessionLaunchPlan {
  int sandbox = -1;                      // pidfd of the sandbox's PID 1
  pid_t pid = -1;                        // the same as a number; its limits and capabilities are the session's
  int v2_cgroup = -1;                    // the sandbox's; -1: none
  std::vector<int> v1_tasks;             // `tasks` files of the others
  std::span<const sock_filter> seccomp;  // the sandbox's
  bool nested_user_namespaces = false;   // the sandbox's processes may make some
  int program = -1;                      // execd
  int connection = -1;                   // to the sandbox's execd, which says what the session is to be
};

// Starts the process that makes the session (execd with --isolated-session). It is the first of a new PID namespace
// below the sandbox's, in the sandbox's cgroup and other namespaces, in a copy of its mounts with the /proc of the new
// namespace. When the program begins it has all capabilities in the sandbox's user namespace and no right outside of
// it; nothing of the request was read before. Blocks until then: a process of the sandbox can hold it up, so callers
// use a thread that nothing else waits for. The process is a child of the sandbox's PID 1 then.
Result<void> launch_session(const SessionLaunchPlan& plan);

}  // namespace osb::sandboxd
