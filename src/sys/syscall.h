#pragma once

#include <cerrno>
#include <fcntl.h>
#include <string>
#include <system_error>

#include "base/error.h"
#include "base/unique_fd.h"

namespace osb::sys {

// Where errno becomes an Error: callers never see -1. `what` names the call and the thing.
inline Failure from_errno(const std::string& what, int e) {
  const Code code = e == ENOENT ? Code::NotFound : e == EEXIST ? Code::Conflict : Code::Internal;
  return Failure(Error(code, what + ": " + std::generic_category().message(e), e));
}

inline Result<UniqueFd> open_at(int dir, const std::string& name, int flags, mode_t mode = 0666) {
  for (;;) {
    const int fd = ::openat(dir, name.c_str(), flags | O_CLOEXEC, mode);
    if (fd >= 0) return UniqueFd(fd);
    if (errno != EINTR) return from_errno("open " + name, errno);
  }
}

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

// Both ends close-on-exec.
inline Result<Pipe> make_pipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) < 0) return from_errno("pipe", errno);
  return Pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

}  // namespace osb::sys
