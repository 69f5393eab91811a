#include "sandboxd/launch/launch_child.h"

#include <cerrno>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <linux/keyctl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "kernel/core_scheduling.h"
#include "sys/clone.h"

namespace osb::sandboxd {

using sys::raw;

[[noreturn]] OSB_IN_CHILD void fail_in_child(ChildPlan& plan) {
  plan.error = errno;
  for (;;) raw(SYS_exit_group, 127);
}

namespace {

OSB_IN_CHILD void begin(ChildPlan& plan, const char* doing, const char* thing = "") {
  plan.doing = doing;
  plan.thing = thing;
}

OSB_IN_CHILD long check(ChildPlan& plan, long result) {
  if (result < 0) fail_in_child(plan);
  return result;
}

OSB_IN_CHILD std::size_t length(const char* text) {
  std::size_t size = 0;
  while (text[size] != '\0') ++size;
  return size;
}

OSB_IN_CHILD void write_file(ChildPlan& plan, int dir, const char* path, const char* text, std::size_t size) {
  const long fd = check(plan, raw(SYS_openat, dir, path, O_WRONLY | O_CLOEXEC, 0));
  check(plan, raw(SYS_write, fd, text, size));
  raw(SYS_close, fd);
}

// As the host's root, where the host's /proc is still in sight.
OSB_IN_CHILD void join_groups_and_namespaces(ChildPlan& plan) {
  begin(plan, "join cgroup");
  for (std::size_t i = 0; i < plan.v1_tasks.count; ++i) check(plan, raw(SYS_write, plan.v1_tasks.items[i], "0", 1));
  begin(plan, "set oom_score_adj");
  if (plan.oom_score_adj != nullptr) {
    write_file(plan, AT_FDCWD, "/proc/self/oom_score_adj", plan.oom_score_adj, length(plan.oom_score_adj));
  }
  begin(plan, "start a session");
  check(plan, raw(SYS_setsid));
  begin(plan, "join the network namespace");
  if (plan.netns >= 0) check(plan, raw(SYS_setns, plan.netns, CLONE_NEWNET));
  begin(plan, "unshare the cgroup namespace");
  if (plan.cgroup_namespace) check(plan, raw(SYS_unshare, CLONE_NEWCGROUP));
  begin(plan, "set hostname", plan.hostname);
  if (plan.hostname_size != 0) check(plan, raw(SYS_sethostname, plan.hostname, plan.hostname_size));
}

OSB_IN_CHILD void unshare_mounts(ChildPlan& plan) {
  begin(plan, "unshare the mount namespace");
  check(plan, raw(SYS_setns, plan.empty_namespace, CLONE_NEWNS));
  check(plan, raw(SYS_unshare, CLONE_NEWNS));
}

OSB_IN_CHILD void enter_stage(ChildPlan& plan) {
  begin(plan, "join the ipc namespace");
  check(plan, raw(SYS_setns, plan.stage_ipc, CLONE_NEWIPC));
  begin(plan, "join the mount namespace");
  check(plan, raw(SYS_setns, plan.stage_mounts, CLONE_NEWNS));
}

// `files`: only the limit of open files, else all others.
OSB_IN_CHILD void set_limits(ChildPlan& plan, bool files) {
  for (std::size_t i = 0; i < plan.limits.count; ++i) {
    if ((plan.limits.items[i].resource == RLIMIT_NOFILE) != files) continue;
    begin(plan, "set a ulimit");
    check(plan, raw(SYS_prlimit64, 0, plan.limits.items[i].resource, &plan.limits.items[i].limits, nullptr));
  }
}

// Of each user inside. The costly kind is the network's.
struct NamespaceLimit {
  const char* file;
  const char* most;
};
constexpr NamespaceLimit kNamespaceLimits[] = {
    {"max_cgroup_namespaces", "256"}, {"max_ipc_namespaces", "256"}, {"max_mnt_namespaces", "1024"},
    {"max_net_namespaces", "64"},     {"max_pid_namespaces", "256"}, {"max_uts_namespaces", "256"},
};

// From here on we have no rights on the host. Joining gives all capabilities in the namespace and none elsewhere; the
// bounding set and the user alone decide which of them exec leaves.
OSB_IN_CHILD void become_user(ChildPlan& plan) {
  begin(plan, "join the user namespace");
  check(plan, raw(SYS_setns, plan.userns, CLONE_NEWUSER));
  begin(plan, "set max_user_namespaces");
  write_file(plan, plan.userns_sysctl, "max_user_namespaces", plan.most_user_namespaces,
             length(plan.most_user_namespaces));
  // Programs that may make no user namespace can make none of the other kinds either.
  if (plan.most_user_namespaces[0] != '0') {
    for (const NamespaceLimit& limit : kNamespaceLimits) {
      begin(plan, "set", limit.file);
      write_file(plan, plan.userns_sysctl, limit.file, limit.most, length(limit.most));
    }
  }
  begin(plan, "make a session keyring");
  if (raw(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, nullptr) < 0 && errno != ENOSYS) fail_in_child(plan);
  begin(plan, "limit capabilities");
  for (int i = 0; i <= plan.last_capability; ++i) {
    if ((plan.capabilities >> i & 1) == 0) check(plan, raw(SYS_prctl, PR_CAPBSET_DROP, i, 0, 0, 0));
  }
  if (plan.no_new_privileges) {
    begin(plan, "set no_new_privs");
    check(plan, raw(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
  } else {
    // Without it, seccomp wants a capability that another user would lose before that.
    check(plan, raw(SYS_prctl, PR_SET_KEEPCAPS, 1, 0, 0, 0));
  }
  begin(plan, "set groups");
  check(plan, raw(SYS_setgroups, plan.groups.count, plan.groups.items));
  begin(plan, "switch group");
  check(plan, raw(SYS_setresgid, plan.gid, plan.gid, plan.gid));
  begin(plan, "switch user");
  check(plan, raw(SYS_setresuid, plan.uid, plan.uid, plan.uid));
}

// Not chdir: a link of the image into /proc/self/fd would leave through one of our descriptors.
OSB_IN_CHILD void enter_cwd(ChildPlan& plan) {
  begin(plan, "enter directory", plan.cwd);
  const long fd = check(plan, open_in_root(plan.cwd, O_PATH | O_DIRECTORY));
  check(plan, raw(SYS_fchdir, fd));
}

OSB_IN_CHILD int move_above(ChildPlan& plan, int fd) {
  if (fd >= plan.first_free) return fd;
  return static_cast<int>(check(plan, raw(SYS_fcntl, fd, F_DUPFD_CLOEXEC, plan.first_free)));
}

// Sources move above all targets first; dup3 then clears close-on-exec in the copies, which everything else has.
OSB_IN_CHILD void arrange_descriptors(ChildPlan& plan) {
  begin(plan, "open /dev/null");
  int null = static_cast<int>(check(plan, raw(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC, 0)));
  begin(plan, "arrange descriptors");
  null = move_above(plan, null);
  plan.program = move_above(plan, plan.program);
  for (std::size_t i = 0; i < plan.descriptors.count; ++i) {
    int& source = plan.descriptors.items[i].source;
    source = source < 0 ? null : move_above(plan, source);
  }
  check(plan, raw(SYS_close_range, 0U, ~0U, CLOSE_RANGE_CLOEXEC));
  for (std::size_t i = 0; i < plan.descriptors.count; ++i) {
    check(plan, raw(SYS_dup3, plan.descriptors.items[i].source, plan.descriptors.items[i].target, 0));
  }
}

// Clone has reset handlers; signals that sandboxd ignores are still ignored in the child. Zero is SIG_DFL, no flags, an
// empty mask, in the kernel's layout of every architecture; KILL and STOP answer EINVAL.
OSB_IN_CHILD void reset_signals() {
  const std::uint64_t action[8] = {};
  for (int signal = 1; signal <= 64; ++signal) raw(SYS_rt_sigaction, signal, action, nullptr, sizeof(std::uint64_t));
  raw(SYS_rt_sigprocmask, SIG_SETMASK, action, nullptr, sizeof(std::uint64_t));
}

OSB_IN_CHILD void send_descriptors(ChildPlan& plan, const int* fds, std::size_t count) {
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * (2 + kEtcFiles + kMostMasks))] = {};
  char byte = 0;
  iovec data{&byte, 1};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_SPACE(sizeof(int) * count);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int) * count);
  int* to = reinterpret_cast<int*>(CMSG_DATA(header));
  for (std::size_t i = 0; i < count; ++i) to[i] = fds[i];
  check(plan, raw(SYS_sendmsg, plan.stage_socket, &message, MSG_NOSIGNAL));
}

// Both ways to restrict oneself want no_new_privs or this capability.
OSB_IN_CHILD void keep_right_to_restrict(ChildPlan& plan) {
  if (plan.no_new_privileges) return;
  begin(plan, "keep a capability");
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  data[0].effective = data[0].permitted = 1U << CAP_SYS_ADMIN;
  check(plan, raw(SYS_capset, &header, &data[0]));
}

// Behind the namespaces: no signal, no ptrace and no abstract socket leads to a process outside of the sandbox.
// Abstract sockets are what a sandbox in the host's network would reach. Rules about files would refuse renames between
// directories, so there are none.
OSB_IN_CHILD void enter_landlock_domain(ChildPlan& plan) {
  if (!plan.landlock) return;
  begin(plan, "enter a Landlock domain");
  constexpr std::uint64_t kAbstractSockets = 1, kSignals = 2;
  const std::uint64_t attributes[3] = {0, 0, kAbstractSockets | kSignals};  // files, network, scopes
  const long rules = check(plan, raw(kLandlockCreateRuleset, attributes, sizeof attributes, 0U));
  check(plan, raw(kLandlockRestrictSelf, rules, 0U));
  raw(SYS_close, rules);
}

OSB_IN_CHILD void install_seccomp(ChildPlan& plan) {
  if (plan.seccomp.len == 0) return;
  begin(plan, "install seccomp program");
  check(plan, raw(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &plan.seccomp));
  if (plan.class_seccomp.len == 0) return;
  begin(plan, "install the class's seccomp program");
  check(plan, raw(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &plan.class_seccomp));
}

// Children inherit the cookie. Without SMT there is nothing to share (ENODEV).
OSB_IN_CHILD void take_core_cookie(ChildPlan& plan) {
  if (!plan.core_scheduling) return;
  begin(plan, "take cores of its own");
  if (raw(SYS_prctl, kernel::kSchedCore, kernel::kSchedCoreCreate, 0, 0, 0) < 0 && errno != ENODEV) fail_in_child(plan);
}

}  // namespace

OSB_IN_CHILD void run_launch_child(void* argument) {
  ChildPlan& plan = *static_cast<ChildPlan*>(argument);
  raw(SYS_umask, 0);
  join_groups_and_namespaces(plan);
  if (plan.stage_mounts >= 0) {
    enter_stage(plan);
  } else {
    unshare_mounts(plan);
    build_child_stage(plan);
  }
  finish_child_root(plan);
  set_limits(plan, false);
  raw(SYS_umask, 022);
  if (plan.exec_label != nullptr) {
    begin(plan, "set the label of", plan.exec_label);
    write_file(plan, AT_FDCWD, "/proc/self/attr/exec", plan.exec_label, plan.exec_label_size);
  }
  become_user(plan);
  enter_cwd(plan);
  arrange_descriptors(plan);
  reset_signals();
  keep_right_to_restrict(plan);
  take_core_cookie(plan);
  enter_landlock_domain(plan);
  // After the last step that opens a descriptor: we have sandboxd's, which can be more than the sandbox may have.
  set_limits(plan, true);
  install_seccomp(plan);
  begin(plan, "exec");
  plan.at_exec = true;
  raw(SYS_execveat, plan.program, "", plan.argv, plan.envp, AT_EMPTY_PATH);
  fail_in_child(plan);
}

OSB_IN_CHILD void run_stage_child(void* argument) {
  ChildPlan& plan = *static_cast<ChildPlan*>(argument);
  raw(SYS_umask, 0);
  begin(plan, "open", "/proc/self/ns");
  // Before the host's /proc is unmounted; entries opened through it later are the namespaces of that moment.
  const int namespaces =
      static_cast<int>(check(plan, raw(SYS_openat, AT_FDCWD, "/proc/self/ns", O_PATH | O_DIRECTORY | O_CLOEXEC, 0)));
  begin(plan, "join the network namespace");
  if (plan.netns >= 0) check(plan, raw(SYS_setns, plan.netns, CLONE_NEWNET));
  unshare_mounts(plan);
  build_child_stage(plan);
  begin(plan, "keep the namespaces");
  int made[2 + kEtcFiles + kMostMasks];
  std::size_t count = 0;
  made[count++] = static_cast<int>(check(plan, raw(SYS_openat, namespaces, "mnt", O_RDONLY | O_CLOEXEC, 0)));
  made[count++] = static_cast<int>(check(plan, raw(SYS_openat, namespaces, "ipc", O_RDONLY | O_CLOEXEC, 0)));
  for (std::size_t i = 0; i < plan.etc_files.count; ++i) made[count++] = plan.etc_files.items[i].file;
  for (std::size_t i = 0; i < plan.masks.count; ++i) {
    if (plan.empty_directories[i] >= 0) made[count++] = plan.empty_directories[i];
  }
  send_descriptors(plan, made, count);
  for (;;) raw(SYS_exit_group, 0);
}

}  // namespace osb::sandboxd
