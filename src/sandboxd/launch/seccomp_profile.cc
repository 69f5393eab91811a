#include "sandboxd/launch/seccomp_profile.h"

#include <linux/btrfs.h>
#include <linux/fs.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <utility>
#include <vector>

#include "kernel/seccomp_policy.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

namespace osb::sandboxd {
namespace {

using kernel::SeccompPolicy;
using Argument = SeccompPolicy::Argument;
constexpr auto kWhole = SeccompPolicy::kWhole;

constexpr std::uint32_t kNewNamespaces =
    CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

void allow_files(SeccompPolicy& policy) {
  policy
      .allow({"access",
              "chdir",
              "chmod",
              "chown",
              "close",
              "close_range",
              "copy_file_range",
              "creat",
              "dup",
              "dup2",
              "dup3",
              "faccessat",
              "faccessat2",
              "fadvise64",
              "fallocate",
              "fchdir",
              "fchmod",
              "fchmodat",
              "fchmodat2",
              "fchown",
              "fchownat",
              "fcntl",
              "fdatasync",
              "fgetxattr",
              "flistxattr",
              "flock",
              "fremovexattr",
              "fsetxattr",
              "fstat",
              "fstatfs",
              "fsync",
              "ftruncate",
              "futimesat",
              "getcwd",
              "getdents",
              "getdents64",
              "getxattr",
              "getxattrat",
              "lchown",
              "lgetxattr",
              "link",
              "linkat",
              "listxattr",
              "listxattrat",
              "llistxattr",
              "lremovexattr",
              "lseek",
              "lsetxattr",
              "lstat",
              "mkdir",
              "mkdirat",
              "mknod",
              "mknodat",
              "newfstatat",
              "name_to_handle_at",
              "open",
              "openat",
              "openat2",
              "pread64",
              "preadv",
              "preadv2",
              "pwrite64",
              "pwritev",
              "pwritev2",
              "read",
              "readahead",
              "readlink",
              "readlinkat",
              "readv",
              "removexattr",
              "removexattrat",
              "rename",
              "renameat",
              "renameat2",
              "rmdir",
              "sendfile",
              "setxattr",
              "setxattrat",
              "splice",
              "stat",
              "statfs",
              "statx",
              "symlink",
              "symlinkat",
              "sync",
              "sync_file_range",
              "syncfs",
              "tee",
              "truncate",
              "umask",
              "unlink",
              "unlinkat",
              "utime",
              "utimensat",
              "utimes",
              "vmsplice",
              "write",
              "writev",
              "cachestat",
              "chroot"})
      .allow({"inotify_add_watch", "inotify_init", "inotify_init1", "inotify_rm_watch"})
      .allow({"epoll_create", "epoll_create1", "epoll_ctl", "epoll_pwait", "epoll_pwait2", "epoll_wait", "eventfd",
              "eventfd2", "pipe", "pipe2", "poll", "ppoll", "pselect6", "select", "signalfd", "signalfd4",
              "timerfd_create", "timerfd_gettime", "timerfd_settime"});
}

void allow_memory(SeccompPolicy& policy) {
  policy.allow({"brk",
                "get_mempolicy",
                "madvise",
                "map_shadow_stack",
                "mbind",
                "membarrier",
                "memfd_create",
                "memfd_secret",
                "mincore",
                "mlock",
                "mlock2",
                "mlockall",
                "mmap",
                "mprotect",
                "mremap",
                "mseal",
                "msync",
                "munlock",
                "munlockall",
                "munmap",
                "pkey_alloc",
                "pkey_free",
                "pkey_mprotect",
                "process_madvise",
                "process_mrelease",
                "remap_file_pages",
                "set_mempolicy"});
}

void allow_processes(SeccompPolicy& policy) {
  policy
      .allow({"arch_prctl",      "execve",
              "execveat",        "exit",
              "exit_group",      "fork",
              "get_robust_list", "get_thread_area",
              "getpgid",         "getpgrp",
              "getpid",          "getppid",
              "getpriority",     "getrandom",
              "getrlimit",       "getrusage",
              "getsid",          "gettid",
              "ioprio_get",      "ioprio_set",
              "pidfd_open",      "pidfd_send_signal",
              "prctl",           "prlimit64",
              "restart_syscall", "rseq",
              "set_robust_list", "set_thread_area",
              "set_tid_address", "setpgid",
              "setpriority",     "setrlimit",
              "setsid",          "uname",
              "vfork",           "wait4",
              "waitid"})
      .allow({"kill", "pause", "rt_sigaction", "rt_sigpending", "rt_sigprocmask", "rt_sigqueueinfo", "rt_sigreturn",
              "rt_sigsuspend", "rt_sigtimedwait", "rt_tgsigqueueinfo", "sigaltstack", "tgkill", "tkill"})
      .allow({"futex", "futex_requeue", "futex_wait", "futex_waitv", "futex_wake"})
      .allow({"sched_get_priority_max", "sched_get_priority_min", "sched_getaffinity", "sched_getattr",
              "sched_getparam", "sched_getscheduler", "sched_rr_get_interval", "sched_setaffinity", "sched_setattr",
              "sched_setparam", "sched_setscheduler", "sched_yield", "getcpu"})
      // Users, groups, capabilities: the kernel checks against the sandbox's own user namespace.
      .allow({"capget", "capset", "getegid", "geteuid", "getgid", "getgroups", "getresgid", "getresuid", "getuid",
              "setfsgid", "setfsuid", "setgid", "setgroups", "setregid", "setresgid", "setresuid", "setreuid",
              "setuid"})
      .allow({"adjtimex", "alarm", "clock_getres", "clock_gettime", "clock_nanosleep", "getitimer", "gettimeofday",
              "nanosleep", "setitimer", "sysinfo", "time", "timer_create", "timer_delete", "timer_getoverrun",
              "timer_gettime", "timer_settime", "times"})
      // Debuggers: only ever the sandbox's own processes, and never execd, which is not dumpable.
      .allow({"kcmp", "pidfd_getfd", "process_vm_readv", "process_vm_writev", "ptrace"})
      // Programs that fence themselves in.
      .allow({"landlock_add_rule", "landlock_create_ruleset", "landlock_restrict_self", "seccomp"});
  for (const std::uint32_t persona : {0x0u, 0x8u, 0x20000u, 0x20008u, 0x40000u, 0xffffffffu}) {
    // Linux, 32-bit uname, 2.6 uname, both, no address randomization (gdb), and the question what it is now.
    policy.allow_if("personality", {Argument{0, kWhole, persona}});
  }
  policy.deny({"personality"});
}

// The limit of core files stays 1 byte. With that number, and with no other, the kernel neither writes a core nor
// starts the host's handler of core_pattern, which would run as the host's root on a process that the sandbox has
// prepared. Setting it "succeeds" without an effect: a program that wants no core files gets what it wants.
void keep_core_limit(SeccompPolicy& policy) {
  const auto null = [](unsigned index) {
    return std::pair(Argument{index, kWhole, 0}, Argument{index, kWhole, 0, true});
  };
  const auto [new_low, new_high] = null(2);
  const auto [old_low, old_high] = null(3);
  const Argument core{1, kWhole, RLIMIT_CORE};
  policy.allow_if("prlimit64", {core, new_low, new_high})
      .deny_if("prlimit64", {core, old_low, old_high}, 0)
      .deny_if("prlimit64", {core})
      .deny_if("setrlimit", {Argument{0, kWhole, RLIMIT_CORE}}, 0);
}

void allow_communication(SeccompPolicy& policy) {
  policy
      .allow({"accept", "accept4", "bind", "connect", "getpeername", "getsockname", "getsockopt", "listen", "recvfrom",
              "recvmmsg", "recvmsg", "sendmmsg", "sendmsg", "sendto", "setsockopt", "shutdown"})
      .allow({"mq_getsetattr", "mq_notify", "mq_open", "mq_timedreceive", "mq_timedsend", "mq_unlink", "msgctl",
              "msgget", "msgrcv", "msgsnd", "semctl", "semget", "semop", "semtimedop", "shmat", "shmctl", "shmdt",
              "shmget"})
      .allow_if("socketpair", {Argument{0, kWhole, AF_UNIX}})
      .deny({"socketpair"}, EAFNOSUPPORT)
      .allow_if("socket", {Argument{0, kWhole, AF_UNIX}})
      // The netlink family that lists interfaces and routes, and no other.
      .allow_if("socket", {Argument{0, kWhole, AF_NETLINK}, Argument{2, kWhole, NETLINK_ROUTE}});
  for (const std::uint32_t family : {AF_INET, AF_INET6}) {
    // Not the rest (SCTP, DCCP, L2TP, ..): asking for one loads its module into the kernel.
    for (const std::uint32_t protocol :
         {0, +IPPROTO_TCP, +IPPROTO_UDP, +IPPROTO_ICMP, +IPPROTO_ICMPV6, +IPPROTO_RAW, 262 /* MPTCP */}) {
      policy.allow_if("socket", {Argument{0, kWhole, family}, Argument{2, kWhole, protocol}});
    }
    policy.deny_if("socket", {Argument{0, kWhole, family}}, EPROTONOSUPPORT);
  }
  policy.deny({"socket"}, EAFNOSUPPORT);
  // Their programs come out of a pool of memory that all users of the host share (net.core.bpf_jit_limit).
  for (const std::uint32_t option :
       {SO_ATTACH_FILTER, SO_ATTACH_BPF, SO_ATTACH_REUSEPORT_CBPF, SO_ATTACH_REUSEPORT_EBPF}) {
    policy.deny_if("setsockopt", {Argument{1, kWhole, SOL_SOCKET}, Argument{2, kWhole, option}});
  }
  // They insert input into a terminal that another program reads.
  policy.deny_if("ioctl", {Argument{1, kWhole, TIOCSTI}}).deny_if("ioctl", {Argument{1, kWhole, TIOCLINUX}});
  // A named volume may lie on btrfs. A subvolume made inside it would have no limit, and a read-only one could not be
  // removed. Sharing of blocks between files stays.
  for (const unsigned long call : {FICLONE, FICLONERANGE, FIDEDUPERANGE}) {
    policy.allow_if("ioctl", {Argument{1, kWhole, static_cast<std::uint32_t>(call)}});
  }
  policy.deny_if("ioctl", {Argument{1, 0xff00, BTRFS_IOCTL_MAGIC << 8}}, ENOTTY);
  policy.allow({"ioctl"});
}

void deny_dangerous(SeccompPolicy& policy) {
  policy
      .deny({"fsconfig", "fsmount", "fsopen", "fspick", "mount", "mount_setattr", "move_mount", "open_tree",
             "pivot_root", "umount2"})
      .deny(
          {"create_module", "delete_module", "finit_module", "init_module", "kexec_file_load", "kexec_load", "reboot"})
      .deny({"acct", "fanotify_init", "fanotify_mark", "lookup_dcookie", "open_by_handle_at", "quotactl", "quotactl_fd",
             "swapoff", "swapon", "syslog", "vhangup"})
      .deny({"clock_adjtime", "clock_settime", "sethostname", "setdomainname", "settimeofday"})
      .deny({"add_key", "keyctl", "request_key"})
      .deny({"bpf", "perf_event_open", "userfaultfd", "io_uring_enter", "io_uring_register", "io_uring_setup"})
      .deny({"ioperm", "iopl", "migrate_pages", "modify_ldt", "move_pages"})
      .deny({"setns"});
  // The flags of clone3 are behind a pointer, where no filter can see them: "unknown" makes libc use clone.
  policy.deny({"clone3"}, ENOSYS);
  policy.allow_if("clone", {Argument{0, kNewNamespaces, 0}}).deny({"clone"});
  policy.allow_if("unshare", {Argument{0, kNewNamespaces | CLONE_NEWTIME, 0}}).deny({"unshare"});
}

void allow_nesting(SeccompPolicy& policy) {
  policy.allow({"clone", "clone3", "unshare", "setns"})
      .allow({"fsconfig", "fsmount", "fsopen", "fspick", "mount", "mount_setattr", "move_mount", "open_tree",
              "pivot_root", "sethostname", "setdomainname", "umount2"});
}

Result<std::vector<sock_filter>> compile(const ProfileOptions& options) {
  SeccompPolicy policy;
  allow_files(policy);
  allow_memory(policy);
  allow_processes(policy);
  keep_core_limit(policy);
  allow_communication(policy);
  deny_dangerous(policy);
  if (options.nested_user_namespaces) allow_nesting(policy);
  return policy.program();
}

}  // namespace

Result<std::span<const sock_filter>> seccomp_program(const ProfileOptions& options) {
  static const Result<std::vector<sock_filter>> plain = compile({});
  static const Result<std::vector<sock_filter>> nested = compile({.nested_user_namespaces = true});
  const auto& program = options.nested_user_namespaces ? nested : plain;
  if (!program) return Failure(program.error());
  return std::span<const sock_filter>(*program);
}

}  // namespace osb::sandboxd
