#include "egress/host/confine.h"

#include <cstring>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "kernel/seccomp_policy.h"
#include "sys/syscall.h"

namespace osb::egress {
namespace {

using kernel::SeccompPolicy;

SeccompPolicy socket_server() {
  SeccompPolicy policy;
  policy.allow({"read", "readv", "write", "writev", "close", "fcntl", "ioctl", "lseek", "fstat", "newfstatat"});
  policy.allow(
      {"brk", "munmap", "mremap", "madvise", "mlock", "futex", "getrandom", "rseq", "set_robust_list", "sysinfo"});
  policy.allow({"rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack", "tgkill", "getpid", "gettid"});
  policy.allow({"clock_gettime", "clock_getres", "clock_nanosleep", "gettimeofday", "nanosleep", "sched_yield"});
  policy.allow({"epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait", "epoll_pwait2", "eventfd2", "poll", "ppoll",
                "timerfd_create", "timerfd_settime", "timerfd_gettime", "restart_syscall"});
  policy.allow({"connect", "bind", "listen", "accept4", "shutdown", "getsockname", "getpeername", "getsockopt",
                "setsockopt", "sendto", "sendmsg", "sendmmsg", "recvfrom", "recvmsg", "recvmmsg", "sendfile"});
  policy.allow({"pipe2", "splice"});  // connections that are not opened
  policy.allow({"exit", "exit_group"});
  for (const std::uint32_t family : {AF_INET, AF_INET6}) {
    policy.allow_if("socket", {{.index = 0, .mask = SeccompPolicy::kWhole, .value = family}});
  }
  for (const char* call : {"mmap", "mprotect"}) {
    policy.allow_if(call, {{.index = 2, .mask = PROT_EXEC, .value = 0}});
  }
  return policy;
}

// Sanitizers read files and start processes when they report.
constexpr bool kSanitized =
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
    true;
#else
    false;
#endif

}  // namespace

Result<void> confine_process() {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) return sys::from_errno("no_new_privs", errno);
  // No core file, and no other process of this user looks inside.
  if (::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0) return sys::from_errno("not dumpable", errno);
  if (kSanitized) return {};
  const auto program = socket_server().program();
  if (!program) return with_context("seccomp", program.error());
  if (const int error = kernel::install_seccomp(*program); error != 0) return sys::from_errno("seccomp", error);
  return {};
}

}  // namespace osb::egress
