#pragma once

#include <sys/types.h>

#include "base/error.h"
#include "base/unique_fd.h"
#include "sandboxd/launch/launch_plan.h"

namespace osb::sandboxd {

struct Launched {
  pid_t pid = -1;  // PID 1 inside; our child: sys::reap() or waitid(P_PIDFD) frees it
  UniqueFd pidfd;
};

// From a resolved plan to a running PID 1 in namespaces of its own. Returns when the program has been exec'd. Blocks
// for about a millisecond; any thread, several at a time. Consumes the plan's mounts.
//
// An error names the step and the thing ("mount /proc: ..", "mount point /data: .."), keeps its errno in sys_errno, and
// leaves nothing: the child is reaped, the mounts are gone with its namespace. Files on disk stay (`work`, mount points
// in `upper`), so remove both before another try. Code::Unsupported: a file system that cannot map ids.
// Code::InvalidRequest: the plan contradicts itself.
//
// The program's view:
// - namespaces: mount, pid, uts, ipc, and cgroup if there is a view; user and network of the plan
// - its own session, umask 022, all signals default, the plan's descriptors, no others
// - /proc with what tells about the host masked and /proc/sys read-only, /sys read-only, /dev with null zero full
// random urandom tty,
//   pts, shm, mqueue, fd, stdin, stdout, stderr; no console
// - a session keyring of its own
// Mounts cannot be changed from inside: the mount namespace belongs to the host's user namespace.
//
// The calling process becomes non-dumpable (no core dumps, /proc/self owned by root): the kernel sees to it when a
// child that shares its memory changes user.
Result<Launched> launch(LaunchPlan plan);

}  // namespace osb::sandboxd
