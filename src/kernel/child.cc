#include "kernel/child.h"

#include <linux/sched.h>
#include <memory>
#include <sched.h>
#include <signal.h>
#include <string>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "sys/syscall.h"

namespace osb::kernel {
namespace {

constexpr std::size_t kStackSize = 32 * 1024;

// The kernel's set of 64 signals. glibc's sigset_t functions leave out the two it uses itself, which must be blocked
// like the others while a child runs in our memory.
class AllSignalsBlocked {
 public:
  AllSignalsBlocked() {
    const std::uint64_t all = ~std::uint64_t{0};
    raw(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before_, sizeof all);
  }
  ~AllSignalsBlocked() { raw(SYS_rt_sigprocmask, SIG_SETMASK, &before_, nullptr, sizeof before_); }
  AllSignalsBlocked(const AllSignalsBlocked&) = delete;
  AllSignalsBlocked& operator=(const AllSignalsBlocked&) = delete;

 private:
  std::uint64_t before_ = 0;
};

// The child starts on its own stack in fn(argument), which does not return. glibc has no public clone3, which alone can
// name a cgroup and reset signal handlers. Returns -errno.
OSB_IN_CHILD long call_clone3(struct clone_args& args, void (*fn)(void*), void* argument) {
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

}  // namespace

Result<VforkChild> vfork_child(void (*fn)(void*), void* argument, const VforkOptions& options) {
  const auto stack = std::make_unique_for_overwrite<std::byte[]>(kStackSize);
  int pidfd = -1;
  struct clone_args args{};
  args.flags = options.clone_flags | CLONE_VM | CLONE_VFORK | CLONE_PIDFD | CLONE_CLEAR_SIGHAND;
  args.pidfd = reinterpret_cast<std::uintptr_t>(&pidfd);
  args.exit_signal = static_cast<std::uint64_t>(options.exit_signal);
  // The ABI wants the stack aligned to 16 bytes.
  const auto bottom = (reinterpret_cast<std::uintptr_t>(stack.get()) + 15) & ~std::uintptr_t{15};
  args.stack = bottom;
  args.stack_size = kStackSize - 16;
  if (options.cgroup_fd >= 0) {
    args.flags |= CLONE_INTO_CGROUP;
    args.cgroup = static_cast<std::uint64_t>(options.cgroup_fd);
  }
  long pid;
  {
    const AllSignalsBlocked blocked;
    pid = call_clone3(args, fn, argument);
  }
  if (pid < 0) return sys::from_errno("clone", static_cast<int>(-pid));
  return VforkChild{static_cast<pid_t>(pid), UniqueFd(pidfd)};
}

void reap(const VforkChild& child) {
  siginfo_t info{};
  while (::waitid(P_PIDFD, static_cast<id_t>(child.pidfd.get()), &info, WEXITED | __WALL) < 0 && errno == EINTR) {
  }
}

}  // namespace osb::kernel
