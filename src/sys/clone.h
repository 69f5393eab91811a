#pragma once

#include <cstdint>

struct clone_args;

// Code that runs in the child shares our memory and our thread's TLS, but is no thread the sanitizers know of.
#define OSB_IN_CHILD __attribute__((disable_sanitizer_instrumentation, no_stack_protector, no_sanitize("unreachable")))

namespace osb::sys {

// The kernel's set of 64 signals. glibc's sigset_t functions leave out the two it uses itself, which must be blocked
// like the others while a child runs in our memory.
using KernelSigset = std::uint64_t;

// No handler may run in the child: it would change our memory without our knowledge.
class AllSignalsBlocked {
 public:
  AllSignalsBlocked();
  ~AllSignalsBlocked();
  AllSignalsBlocked(const AllSignalsBlocked&) = delete;
  AllSignalsBlocked& operator=(const AllSignalsBlocked&) = delete;

 private:
  KernelSigset before_ = 0;
};

// The child starts on its own stack in fn(argument), which does not return. glibc has no public clone3, which alone can
// name a cgroup and reset signal handlers. Returns -errno.
long call_clone3(clone_args& args, void (*fn)(void*), void* argument);

}  // namespace osb::sys
