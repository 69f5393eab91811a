#pragma once

#include <sys/types.h>

#include "base/error.h"
#include "base/unique_fd.h"

namespace osb::sys {

// A child process of ours.
struct Child {
  pid_t pid = -1;
  UniqueFd pidfd;
  bool in_cgroup = false;  // it and all that it starts are in the cgroup that its start asked for
};

// How a process ended.
struct ExitStatus {
  int code = 0;    // exit code; meaningless when signalled
  int signal = 0;  // 0: not signalled
  bool ok() const { return code == 0 && signal == 0; }
};

// Waits for the end of a child with any exit signal, and frees its pid.
Result<ExitStatus> reap(const Child& child);

}  // namespace osb::sys
