#include "sys/child.h"

#include <cerrno>
#include <sched.h>
#include <string>
#include <sys/wait.h>

#include "sys/syscall.h"

namespace osb::sys {

Result<ExitStatus> reap(const Child& child) {
  siginfo_t info{};
  while (::waitid(P_PIDFD, static_cast<id_t>(child.pidfd.get()), &info, WEXITED | __WALL) < 0) {
    if (errno != EINTR) return from_errno("wait for process " + std::to_string(child.pid), errno);
  }
  return info.si_code == CLD_EXITED ? ExitStatus{info.si_status, 0} : ExitStatus{0, info.si_status};
}

}  // namespace osb::sys
