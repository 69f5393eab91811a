#include "sys/pidfd.h"

#include <algorithm>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/deadline.h"
#include "sys/syscall.h"

namespace osb::sys {
namespace {

Failure process_failure(const std::string& what, int error) {
  Failure failure = from_errno(what, error);
  if (error == ESRCH) failure.error().code = Code::NotFound;
  return failure;
}

}  // namespace

Result<UniqueFd> open_pidfd(pid_t pid) {
  UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!fd) return process_failure("open process " + std::to_string(pid), errno);
  return fd;
}

Result<void> send_signal(int pidfd, int signal) {
  if (::syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0) < 0) {
    return process_failure("send signal " + std::to_string(signal), errno);
  }
  return {};
}

bool wait_ended(int pidfd, std::chrono::milliseconds limit) {
  const Deadline deadline(limit);
  for (;;) {
    pollfd ended{pidfd, POLLIN, 0};
    const int ready = ::poll(&ended, 1, static_cast<int>(deadline.left().count()));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

}  // namespace osb::sys
