#include "kernel/child.h"

#include <linux/sched.h>
#include <memory>
#include <sched.h>
#include <signal.h>
#include <string>
#include <sys/wait.h>

#include "sys/syscall.h"

namespace osb::kernel {
namespace {

constexpr std::size_t kStackSize = 32 * 1024;

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
    const sys::AllSignalsBlocked blocked;
    pid = sys::call_clone3(args, fn, argument);
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
