#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "execd/isolated/session_spec.h"

namespace osb::execd {

// The changes of one overlay and the directory that it lies over. Only the session's first process has them open.
struct SessionLayer {
  std::string path;
  UniqueFd upper;
  UniqueFd lower;
};

// Makes the session's root and makes it the root of this process, which is alone in a mount, UTS and IPC namespace of
// its own. All of the sandbox is seen, read-only, with its own /tmp (or the sandbox's), /run, /dev/shm, /dev/pts and
// /dev/mqueue, and with the mounts of the spec. `mount_proc`: also a new /proc; else the one that is there is this
// process's own already. Returns the overlays that persist.
Result<std::vector<SessionLayer>> enter_session_root(const SessionSpec& spec, bool mount_proc);

}  // namespace osb::execd
