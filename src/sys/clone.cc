#include "sys/clone.h"

#include <cstddef>
#include <linux/sched.h>
#include <memory>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>

#include "sys/syscall.h"

// glibc's own name of clone(): ThreadSanitizer replaces `clone` by one that expects the child to have its own memory.
extern "C" int __clone(int (*fn)(void*), void* stack, int flags, void* arg, ...) noexcept;

namespace osb::sys {
namespace {

constexpr std::size_t kStackSize = 32 * 1024;

// No handler may run in the child: it would change our memory without our knowledge.
class AllSignalsBlocked {
 public:
  AllSignalsBlocked() {
    const KernelSigset all = ~KernelSigset{0};
    ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before_, sizeof all);
  }
  ~AllSignalsBlocked() { ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before_, nullptr, sizeof before_); }
  AllSignalsBlocked(const AllSignalsBlocked&) = delete;
  AllSignalsBlocked& operator=(const AllSignalsBlocked&) = delete;

 private:
  KernelSigset before_ = 0;
};

struct Start {
  void (*fn)(void*);
  void* argument;
};

OSB_IN_CHILD int run_start(void* argument) {
  const Start& start = *static_cast<const Start*>(argument);
  start.fn(start.argument);
  return 127;
}

}  // namespace

OSB_IN_CHILD long call_clone3(clone_args& args, void (*fn)(void*), void* argument) {
#if defined(__x86_64__)
  register void (*child)(void*) __asm__("r8") = fn;
  register void* child_argument __asm__("r9") = argument;
  long result = SYS_clone3;
  __asm__ volatile(
      "syscall\n\t"
      "testq %%rax, %%rax\n\t"
      "jnz 1f\n\t"
      "xorl %%ebp, %%ebp\n\t"  // the end of the chain of frames
      "movq %%r9, %%rdi\n\t"
      "callq *%%r8\n\t"
      "ud2\n"
      "1:"
      : "+a"(result)
      : "D"(&args), "S"(sizeof args), "r"(child), "r"(child_argument)
      : "rcx", "r11", "memory", "cc");
  return result;
#elif defined(__aarch64__)
  register long result __asm__("x0") = reinterpret_cast<long>(&args);
  register std::size_t size __asm__("x1") = sizeof args;
  register void (*child)(void*) __asm__("x2") = fn;
  register void* child_argument __asm__("x3") = argument;
  register long number __asm__("x8") = SYS_clone3;
  __asm__ volatile(
      "svc #0\n\t"
      "cbnz x0, 1f\n\t"
      "mov x29, xzr\n\t"  // the end of the chain of frames
      "mov x30, xzr\n\t"
      "mov x0, x3\n\t"
      "blr x2\n\t"
      "brk #1\n"
      "1:"
      : "+r"(result)
      : "r"(size), "r"(child), "r"(child_argument), "r"(number)
      : "memory", "cc");
  return result;
#else
#error "clone3 is not written for this architecture yet"
#endif
}

Result<Child> vfork_child(void (*fn)(void*), void* argument, const VforkOptions& options) {
  const auto stack = std::make_unique_for_overwrite<std::byte[]>(kStackSize);
  // The ABI wants the stack aligned to 16 bytes.
  const auto bottom = (reinterpret_cast<std::uintptr_t>(stack.get()) + 15) & ~std::uintptr_t{15};
  constexpr std::size_t kSize = kStackSize - 16;
  const std::uint64_t flags = options.clone_flags | CLONE_VM | CLONE_VFORK | CLONE_PIDFD;
  int pidfd = -1;
  long pid;
  if (options.plain) {
    Start start{fn, argument};
    const AllSignalsBlocked blocked;
    pid = ::__clone(&run_start, reinterpret_cast<void*>(bottom + kSize), static_cast<int>(flags) | options.exit_signal,
                    &start, &pidfd);
    if (pid < 0) pid = -errno;
  } else {
    struct clone_args args{};
    args.flags = flags | CLONE_CLEAR_SIGHAND | (options.cgroup_fd >= 0 ? CLONE_INTO_CGROUP : 0);
    args.pidfd = reinterpret_cast<std::uintptr_t>(&pidfd);
    args.exit_signal = static_cast<std::uint64_t>(options.exit_signal);
    args.stack = bottom;
    args.stack_size = kSize;
    args.cgroup = options.cgroup_fd >= 0 ? static_cast<std::uint64_t>(options.cgroup_fd) : 0;
    const AllSignalsBlocked blocked;
    pid = call_clone3(args, fn, argument);
  }
  if (pid < 0) return from_errno("clone", static_cast<int>(-pid));
  return Child{static_cast<pid_t>(pid), UniqueFd(pidfd), !options.plain && options.cgroup_fd >= 0};
}

}  // namespace osb::sys
