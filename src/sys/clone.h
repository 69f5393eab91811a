#pragma once

#include <cerrno>
#include <cstdint>
#include <unistd.h>

#include "base/error.h"
#include "sys/child.h"

// Code that runs in the child shares our memory and our thread's TLS, but is no thread the sanitizers know of.
#define OSB_IN_CHILD __attribute__((disable_sanitizer_instrumentation, no_stack_protector, no_sanitize("unreachable")))

struct clone_args;

namespace osb::sys {

// The kernel's set of 64 signals. glibc's sigset_t functions leave out the two it uses itself, which are blocked like
// the others while a child runs in our memory.
using KernelSigset = std::uint64_t;

// A system call by number, for code in the child: sets errno and nothing else, and concerns the calling task only
// (glibc's setuid and friends would ask all threads of the parent to follow).
template <typename... Args>
OSB_IN_CHILD inline long raw(long number, Args... args) {
  return ::syscall(number, args...);
}

struct VforkOptions {
  std::uint64_t clone_flags = 0;  // CLONE_NEW*, CLONE_FILES
  int exit_signal = 0;            // 0: a wait for any child does not see it; reap() does
  int cgroup_fd = -1;             // a cgroup v2 directory in which the child is born
  // By clone() instead of clone3(), which old kernels and some filters refuse. Then there is no `cgroup_fd`, and the
  // child inherits signal handlers: it resets them before it unblocks signals.
  bool plain = false;
};

// Runs fn(argument) in a child that shares our memory; the caller sleeps until the child has exec'd or exited. So the
// child costs nothing for our size, may write results into `argument`, and must not allocate, throw, return from fn or
// touch anything but prepared memory and raw(). Its signals are blocked and have no handlers; ignored ones stay
// ignored.
Result<Child> vfork_child(void (*fn)(void*), void* argument, const VforkOptions& options);

// The system call itself, for a child that makes another one: the child starts on the stack of `args` in fn(argument),
// which does not return. glibc has no public clone3, which alone can name a cgroup and reset signal handlers. Returns
// -errno.
long call_clone3(clone_args& args, void (*fn)(void*), void* argument);

}  // namespace osb::sys
