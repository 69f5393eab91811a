#include "kernel/namespace.h"

#include <algorithm>
#include <fcntl.h>
#include <linux/sched.h>
#include <linux/securebits.h>
#include <ranges>
#include <sched.h>
#include <string_view>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <vector>

#include <fmt/format.h>

#include "sys/clone.h"
#include "sys/mountinfo.h"
#include "sys/syscall.h"
#include "sys/text_file.h"

namespace osb::kernel {
namespace {

using sys::raw;
using sys::vfork_child;

// Input and result of a child that makes a namespace.
struct Task {
  int userns = -1;
  int made = -1;  // number in our table of descriptors (CLONE_FILES)
  int error = 0;
  const char* failed = nullptr;
};

[[noreturn]] OSB_IN_CHILD void leave() {
  for (;;) raw(SYS_exit_group, 0);
}

[[noreturn]] OSB_IN_CHILD void give_up(Task& task, const char* what) {
  task.error = errno;
  task.failed = what;
  leave();
}

OSB_IN_CHILD void do_nothing(void*) { leave(); }

// The kernel takes the limits of the process that makes a user namespace as limits for all users in it together.
struct TotalLimit {
  int resource;
  rlim_t most;
};
constexpr TotalLimit kTotalLimits[] = {{RLIMIT_SIGPENDING, kMostPendingSignals}, {RLIMIT_MSGQUEUE, kMostQueueBytes}};

struct UserTask {
  std::uint32_t owner = 0;
  int error = 0;
  const char* failed = nullptr;
};

OSB_IN_CHILD void require(UserTask& task, const char* what, long result) {
  if (result >= 0) return;
  task.error = errno;
  task.failed = what;
  leave();
}

// The owner of a user namespace is the effective user of the process that makes it. That process keeps root's
// capabilities, because some hosts allow no other process to make user namespaces.
OSB_IN_CHILD void make_owned_user_namespace(void* argument) {
  UserTask& task = *static_cast<UserTask*>(argument);
  for (const TotalLimit& total : kTotalLimits) {
    struct rlimit limit;
    require(task, "read a limit", raw(SYS_prlimit64, 0, total.resource, nullptr, &limit));
    limit.rlim_max = limit.rlim_cur = limit.rlim_max < total.most ? limit.rlim_max : total.most;
    require(task, "set a limit", raw(SYS_prlimit64, 0, total.resource, &limit, nullptr));
  }
  // Cgroups count processes. Without the capability to raise it, sandboxd's own limit holds.
  const struct rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY};
  raw(SYS_prlimit64, 0, RLIMIT_NPROC, &unlimited, nullptr);
  require(task, "keep capabilities", raw(SYS_prctl, PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0));
  require(task, "switch group", raw(SYS_setresgid, task.owner, task.owner, task.owner));
  require(task, "switch user", raw(SYS_setresuid, task.owner, task.owner, task.owner));
  require(task, "unshare", raw(SYS_unshare, CLONE_NEWUSER));
  leave();
}

OSB_IN_CHILD void keep_namespace(Task& task, const char* link) {
  const long fd = raw(SYS_openat, AT_FDCWD, link, O_RDONLY | O_CLOEXEC, 0);
  if (fd < 0) give_up(task, link);
  task.made = static_cast<int>(fd);
  leave();
}

OSB_IN_CHILD void make_network(void* argument) {
  Task& task = *static_cast<Task*>(argument);
  if (raw(SYS_setns, task.userns, CLONE_NEWUSER) < 0) give_up(task, "join the user namespace");
  if (raw(SYS_unshare, CLONE_NEWNET) < 0) give_up(task, "unshare the network");
  keep_namespace(task, "/proc/self/ns/net");
}

// The tmpfs is mounted over /proc, which exists everywhere; what is below stays reachable by the working directory
// until it is detached.
OSB_IN_CHILD void make_empty_mounts(void* argument) {
  Task& task = *static_cast<Task*>(argument);
  const long fd = raw(SYS_openat, AT_FDCWD, "/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC, 0);
  if (fd < 0) give_up(task, "/proc/self/ns/mnt");
  task.made = static_cast<int>(fd);
  if (raw(SYS_mount, nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) < 0) give_up(task, "make mounts private");
  if (raw(SYS_mount, "none", "/proc", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=755,size=1m") < 0) {
    give_up(task, "mount tmpfs");
  }
  if (raw(SYS_chdir, "/proc") < 0) give_up(task, "enter tmpfs");
  if (raw(SYS_pivot_root, ".", ".") < 0) give_up(task, "pivot_root");
  if (raw(SYS_umount2, ".", MNT_DETACH) < 0) give_up(task, "detach the old root");
  for (const char* directory : {"/mnt", "/root", "/usr"}) {
    if (raw(SYS_mkdirat, AT_FDCWD, directory, 0755) < 0) give_up(task, "make a directory");
  }
  leave();
}

Result<UniqueFd> make_in_child(const char* what, void (*fn)(void*), Task task, std::uint64_t flags) {
  auto child = vfork_child(fn, &task, {.clone_flags = flags | CLONE_FILES});
  if (!child) return with_context(what, child.error());
  (void)sys::reap(*child);
  UniqueFd made(task.made);
  if (task.failed != nullptr) return sys::from_errno(fmt::format("{}: {}", what, task.failed), task.error);
  if (!made) return fail(Code::Internal, fmt::format("{}: the child was killed", what));
  return made;
}

// The child has ended. As long as it is not reaped, its namespace can be found through its pid, without further
// synchronisation.
Result<UniqueFd> set_maps_and_reap(const sys::Child& child, const std::string& users, const std::string& groups,
                                   const std::string& what) {
  const std::string proc = fmt::format("/proc/{}/", child.pid);
  auto written = sys::write_text(proc + "uid_map", users);
  if (written) written = sys::write_text(proc + "gid_map", groups);
  auto made = sys::open_at(AT_FDCWD, proc + "ns/user", O_RDONLY);
  (void)sys::reap(child);
  if (!written) return with_context(what, written.error());
  if (!made) return with_context(what, made.error());
  return made;
}

bool is_below(std::string_view path, std::string_view dir) {
  if (dir == "/") return true;
  return path.starts_with(dir) && (path.size() == dir.size() || path[dir.size()] == '/');
}

}  // namespace

Result<UniqueFd> make_user_namespace(std::uint32_t id_base, std::uint32_t count) {
  const std::string what = fmt::format("make user namespace at id {}", id_base);
  UserTask task{.owner = id_base};
  auto child = vfork_child(&make_owned_user_namespace, &task, {});
  if (!child) return with_context(what, child.error());
  if (task.failed != nullptr) {
    (void)sys::reap(*child);
    return sys::from_errno(fmt::format("{}: {}", what, task.failed), task.error);
  }
  const std::string map = fmt::format("0 {} {}\n", id_base, count);
  return set_maps_and_reap(*child, map, map, what);
}

Result<UniqueFd> make_id_map(std::span<const IdRange> users, std::span<const IdRange> groups) {
  const auto text_of = [](std::span<const IdRange> ranges) {
    std::string out;
    for (const IdRange& range : ranges) out += fmt::format("{} {} {}\n", range.inside, range.outside, range.count);
    return out;
  };
  auto child = vfork_child(&do_nothing, nullptr, {.clone_flags = CLONE_NEWUSER});
  if (!child) return with_context("make a map of ids", child.error());
  return set_maps_and_reap(*child, text_of(users), text_of(groups), "make a map of ids");
}

Result<UniqueFd> make_network_namespace(int userns_fd) {
  return make_in_child("make network namespace", &make_network, {.userns = userns_fd}, 0);
}

Result<UniqueFd> make_empty_mount_namespace() {
  return make_in_child("make mount namespace", &make_empty_mounts, {}, CLONE_NEWNS);
}

Result<void> enter_private_mount_namespace(std::span<const std::string> keep) {
  const auto failed = [](const std::string& what, int e) {
    return with_context("enter a private mount namespace", sys::from_errno(what, e).error());
  };
  if (::unshare(CLONE_NEWNS) < 0) return failed("unshare", errno);
  // From here on nothing that we mount or unmount is seen outside.
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) < 0) return failed("make mounts private", errno);
  auto mountinfo = sys::read_text("/proc/self/mountinfo");
  if (!mountinfo) return with_context("enter a private mount namespace", mountinfo.error());

  static constexpr std::string_view kNeeded[] = {"/proc", "/sys", "/dev", "/usr"};
  const std::vector<sys::MountEntry> mounts = sys::parse_mountinfo(*mountinfo);
  // Children first, and of two on one point the upper one.
  for (const auto& [root, point, type, options] : mounts | std::views::reverse) {
    const auto holds = [&](std::string_view path) { return is_below(path, point) || is_below(point, path); };
    const bool needed = point == "/" || point.starts_with("/sys/fs/cgroup") ||
                        std::ranges::any_of(kNeeded, [&](std::string_view path) { return path == point; }) ||
                        std::ranges::any_of(keep, holds);
    // A mount that contains a needed mount is needed itself, so no needed mount goes with it. A mount that is gone
    // already is no error.
    if (!needed) ::umount2(point.c_str(), UMOUNT_NOFOLLOW | MNT_DETACH);
  }
  return {};
}

}  // namespace osb::kernel
