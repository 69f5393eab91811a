#pragma once

#include <cerrno>
#include <cstdint>
#include <sys/types.h>
#include <unistd.h>

#include "base/error.h"
#include "base/unique_fd.h"
#include "sys/clone.h"

namespace osb::kernel {

// A system call by number, for code in the child: sets errno and nothing else, and concerns the calling task only
// (glibc's setuid and friends would ask all threads of the parent to follow).
template <typename... Args>
OSB_IN_CHILD inline long raw(long number, Args... args) {
  return ::syscall(number, args...);
}

struct VforkChild {
  pid_t pid = -1;
  UniqueFd pidfd;
};

struct VforkOptions {
  std::uint64_t clone_flags = 0;  // CLONE_NEW*, CLONE_FILES
  int exit_signal = 0;            // 0: a wait for any child does not see it; reap() does
  int cgroup_fd = -1;             // a cgroup v2 directory in which the child is born
};

// Runs fn(argument) in a child that shares our memory; the caller sleeps until the child has exec'd or exited. So the
// child costs nothing for our size, may write results into `argument`, and must not allocate, throw, return from fn or
// touch anything but prepared memory and raw(). Its signals are blocked and have no handlers; ignored ones stay
// ignored.
Result<VforkChild> vfork_child(void (*fn)(void*), void* argument, const VforkOptions& options);

// Waits for the end of a child with any exit signal, and frees its pid.
void reap(const VforkChild& child);

}  // namespace osb::kernel
