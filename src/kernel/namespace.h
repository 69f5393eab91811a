#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/error.h"
#include "base/unique_fd.h"

namespace osb::kernel {

// All of these need real root (CAP_SYS_ADMIN in the initial user namespace) and /proc. May be called from any thread:
// what has to happen elsewhere happens in a short-lived child that is gone when the call returns.

// A user namespace in which ids 0..count-1 are id_base.. of ours, both for users and groups. It lives as long as the
// descriptor or a process in it. No process is left behind.
//
// It belongs to user id_base, so its processes use up that user's share of what the kernel counts per user (inotify,
// pending signals, POSIX message queues, namespaces), and nothing of root's.
Result<UniqueFd> make_user_namespace(std::uint32_t id_base, std::uint32_t count);

// Totals of all users in such a namespace. Both are the kernel's usual limits of one user, or near them.
inline constexpr std::uint64_t kMostPendingSignals = 32'768;  // POSIX timers count too
inline constexpr std::uint64_t kMostQueueBytes = 819'200;

struct IdRange {
  std::uint32_t inside, outside, count;
};

// A user namespace that only holds maps, for idmapped mounts: `inside` is the id on disk, `outside` the id that the
// mount shows. Neither may overlap within one map.
Result<UniqueFd> make_id_map(std::span<const IdRange> users, std::span<const IdRange> groups);

// A network namespace that belongs to the given user namespace: root in there rules it, and nothing else. Its loopback
// is down. It lives as long as the descriptor, a process or a veth's other end keeps it.
Result<UniqueFd> make_network_namespace(int userns_fd);

// A mount namespace with nothing in it but a tmpfs as root and in that empty directories to mount on: /mnt, /root and
// /usr. A child that starts from here copies two mounts instead of all of ours: setns, then unshare(CLONE_NEWNS). The
// tmpfs is shared by all that do.
Result<UniqueFd> make_empty_mount_namespace();

// Moves the calling process into a mount namespace of its own: nothing that is mounted here is seen outside, and the
// other way round. Every mount costs each child that copies the namespace, so they are detached, except the ones that
// hold /, /proc, /sys, /dev, /usr, cgroups, a path of `keep` or are below one. Outside nothing changes. Name in `keep`
// every path that is used later or must be seen by others: state, sockets in /run, allowed host paths.
// Call it first thing in main, before there are threads: other threads would stay where they were. Descriptors opened
// before belong to the old namespace: mounts cannot be cloned from them.
Result<void> enter_private_mount_namespace(std::span<const std::string> keep);

}  // namespace osb::kernel
