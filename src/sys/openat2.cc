#include "sys/openat2.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sys/syscall.h"

namespace osb::sys {

OSB_IN_CHILD int try_openat2(int directory, const char* path, int flags, std::uint64_t resolve) {
  open_how how;  // filled member by member: a child may not call memset of a sanitizer
  how.flags = static_cast<std::uint64_t>(flags) | O_CLOEXEC;
  how.mode = 0;
  how.resolve = resolve;
  for (int attempt = 1;; ++attempt) {
    const long fd = ::syscall(SYS_openat2, directory, path, &how, sizeof how);
    if (fd >= 0) return static_cast<int>(fd);
    if ((errno != EAGAIN && errno != EINTR) || attempt == kOpenAttempts) return -1;
  }
}

Result<UniqueFd> openat2(int directory, const std::string& path, int flags, std::uint64_t resolve) {
  const int fd = try_openat2(directory, path.c_str(), flags, resolve);
  if (fd >= 0) return UniqueFd(fd);
  if (errno != EAGAIN) return from_errno("open " + path, errno);
  return Failure(Error(Code::Unavailable,
                       "open " + path +
                           ": other processes rename directories too fast to follow this path safely; "
                           "try again when they have finished",
                       EAGAIN));
}

}  // namespace osb::sys
