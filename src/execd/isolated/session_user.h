#pragma once

#include <cstdint>
#include <sys/types.h>

#include "base/error.h"
#include "base/unique_fd.h"
#include "execd/isolated/session_spec.h"

namespace osb::execd {

// The process that starts the runs and serves the files of a session with uid_mode userns. It is in a user namespace
// that has one user and one group, those of the request; outside they are the user and group of the session's first
// process.
struct SessionUser {
  pid_t pid = -1;
  UniqueFd socket{};  // takes the messages of session_init.h; its end ends the process
};

struct SessionUserParts {
  int proc = -1;                   // a /proc that can be written to
  int limit = -1;                  // max_user_namespaces of the sandbox, if it is 0: raised while the namespace is made
  std::uint64_t capabilities = 0;  // these two as for raise_session_walls()
  int filter = -1;
};

// Forks that process. It is behind the walls of session_walls.h when this returns. Code::Unsupported: this sandbox may
// not make user namespaces.
Result<SessionUser> start_session_user(const SessionSpec& spec, const SessionUserParts& parts);

}  // namespace osb::execd
