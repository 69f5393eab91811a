#include "sandboxd/launch/seccomp_profile.h"

#include <fcntl.h>
#include <functional>
#include <linux/keyctl.h>
#include <linux/netlink.h>
#include <linux/sched.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "kernel/seccomp_policy.h"

namespace osb::sandboxd {
namespace {

// Exit code of `body` in a child under the profile, or minus the signal that ended it. The child is root, if we are:
// the filter alone refuses.
int run_under(const ProfileOptions& options, const std::function<int()>& body) {
  const auto program = seccomp_program(options);
  if (!program) return ADD_FAILURE() << program.error().message, -1000;
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (kernel::install_seccomp(*program) != 0) ::_exit(250);
    ::_exit(body());
  }
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int call(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0) {
  return ::syscall(number, a, b, c, d, e, f) < 0 ? errno : 0;
}

constexpr ProfileOptions kPlain{};
constexpr ProfileOptions kNested{.nested_user_namespaces = true};

TEST(SeccompProfile, DangerousCallsAreForbidden) {
  const struct {
    const char* name;
    long number;
    long first = 0;
  } rows[] = {
      {"mount", SYS_mount},
      {"umount2", SYS_umount2},
      {"pivot_root", SYS_pivot_root},
      {"fsopen", SYS_fsopen},
      {"open_tree", SYS_open_tree, -1},
      {"move_mount", SYS_move_mount, -1},
      {"mount_setattr", SYS_mount_setattr, -1},
      {"setns", SYS_setns, -1},
      {"init_module", SYS_init_module},
      {"finit_module", SYS_finit_module, -1},
      {"delete_module", SYS_delete_module},
      {"kexec_load", SYS_kexec_load, -1},
      {"kexec_file_load", SYS_kexec_file_load, -1},
      {"reboot", SYS_reboot},
      {"bpf", SYS_bpf, 9999},
      {"perf_event_open", SYS_perf_event_open},
      {"userfaultfd", SYS_userfaultfd, 0x7f},
      {"io_uring_setup", SYS_io_uring_setup, 1},
      {"keyctl", SYS_keyctl, KEYCTL_GET_KEYRING_ID},
      {"add_key", SYS_add_key},
      {"request_key", SYS_request_key},
      {"quotactl", SYS_quotactl},
      {"open_by_handle_at", SYS_open_by_handle_at, -1},
      {"acct", SYS_acct},
      {"swapon", SYS_swapon},
      {"syslog", SYS_syslog, 3},
      {"clock_settime", SYS_clock_settime, -1},
      {"settimeofday", SYS_settimeofday},
      {"sethostname", SYS_sethostname, 0},
      {"fanotify_init", SYS_fanotify_init},
#if defined(__x86_64__)
      {"iopl", SYS_iopl, 0},
      {"ioperm", SYS_ioperm},
      {"modify_ldt", SYS_modify_ldt},
#endif
  };
  for (const auto& row : rows) {
    EXPECT_EQ(run_under(kPlain, [&] { return call(row.number, row.first); }), EPERM) << row.name;
  }
}

TEST(SeccompProfile, NamespacesCannotBeMade) {
  for (const long flag : {CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWNET, CLONE_NEWPID, CLONE_NEWIPC, CLONE_NEWUTS,
                          CLONE_NEWCGROUP, CLONE_NEWTIME}) {
    EXPECT_EQ(run_under(kPlain, [&] { return call(SYS_unshare, flag); }), EPERM) << flag;
    if (flag == CLONE_NEWTIME) continue;  // its bit belongs to the signal in clone's flags
    EXPECT_EQ(run_under(kPlain, [&] { return call(SYS_clone, flag | SIGCHLD); }), EPERM) << flag;
    EXPECT_EQ(run_under(kPlain, [&] { return call(SYS_clone, (1L << 40) | flag | SIGCHLD); }), EPERM) << flag;
  }
  EXPECT_EQ(run_under(kPlain, [] { return call(SYS_clone3); }), ENOSYS);
  EXPECT_EQ(run_under(kPlain, [] { return call(SYS_unshare, CLONE_FS | CLONE_FILES); }), 0);
}

TEST(SeccompProfile, ProcessesAndThreadsCanBeMade) {
  EXPECT_EQ(run_under(kPlain,
                      [] {
                        int sum = 0;
                        std::thread([&] { sum += 1; }).join();
                        const pid_t pid = ::fork();
                        if (pid == 0) ::_exit(4);
                        int status = 0;
                        ::waitpid(pid, &status, 0);
                        return sum + WEXITSTATUS(status);
                      }),
            5);
  EXPECT_EQ(run_under(kPlain,
                      [] {
                        ::execl("/bin/sh", "sh", "-c", "cat /proc/self/status | grep -q Seccomp && exit 3",
                                static_cast<char*>(nullptr));
                        return 1;
                      }),
            3);
}

TEST(SeccompProfile, NestedNamespacesWorkWhereAllowed) {
  const auto nest = [] {
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return errno;
    return call(SYS_umount2, reinterpret_cast<long>("/no/such/mount")) == ENOENT ? 0 : 200;
  };
  EXPECT_EQ(run_under(kNested, nest), 0);
  EXPECT_EQ(run_under(kNested, [] { return call(SYS_clone3, 0, 0); }), EINVAL) << "the kernel's own answer";
  EXPECT_EQ(run_under(kNested, [] { return call(SYS_bpf, 9999); }), EPERM) << "the rest stays closed";
}

TEST(SeccompProfile, SocketsOfUsualFamiliesOnly) {
  const struct {
    const char* why;
    int family, type, protocol, want;
  } rows[] = {
      {"unix", AF_UNIX, SOCK_STREAM, 0, 0},
      {"tcp", AF_INET, SOCK_STREAM, 0, 0},
      {"tcp by name", AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP, 0},
      {"udp", AF_INET, SOCK_DGRAM, IPPROTO_UDP, 0},
      {"interfaces and routes", AF_NETLINK, SOCK_RAW, NETLINK_ROUTE, 0},
      {"netfilter", AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER, EAFNOSUPPORT},
      {"audit", AF_NETLINK, SOCK_RAW, NETLINK_AUDIT, EAFNOSUPPORT},
      {"kernel events", AF_NETLINK, SOCK_RAW, NETLINK_KOBJECT_UEVENT, EAFNOSUPPORT},
      {"the hypervisor", AF_VSOCK, SOCK_STREAM, 0, EAFNOSUPPORT},
      {"kernel crypto", AF_ALG, SOCK_SEQPACKET, 0, EAFNOSUPPORT},
      {"packets", AF_PACKET, SOCK_RAW, 0, EAFNOSUPPORT},
      {"bluetooth", AF_BLUETOOTH, SOCK_RAW, 0, EAFNOSUPPORT},
      {"sctp", AF_INET, SOCK_STREAM, IPPROTO_SCTP, EPROTONOSUPPORT},
      {"dccp", AF_INET6, 6, IPPROTO_DCCP, EPROTONOSUPPORT},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(run_under(kPlain, [&] { return call(SYS_socket, row.family, row.type, row.protocol); }), row.want)
        << row.why;
  }
  const long disguised = (1L << 32) | AF_VSOCK;
  EXPECT_EQ(run_under(kPlain, [&] { return call(SYS_socket, disguised, SOCK_STREAM, 0); }), EAFNOSUPPORT);
  EXPECT_EQ(run_under(kPlain,
                      [] {
                        int pair[2];
                        return ::socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0 ? errno : 0;
                      }),
            0);
}

TEST(SeccompProfile, TerminalsCannotBeFed) {
  char byte = 'x';
  const long address = reinterpret_cast<long>(&byte);
  EXPECT_EQ(run_under(kPlain, [&] { return call(SYS_ioctl, 0, TIOCSTI, address); }), EPERM);
  EXPECT_EQ(run_under(kPlain, [&] { return call(SYS_ioctl, 0, (1L << 32) | TIOCSTI, address); }), EPERM);
  EXPECT_EQ(run_under(kPlain, [&] { return call(SYS_ioctl, 0, TIOCLINUX, address); }), EPERM);
  EXPECT_EQ(run_under(kPlain, [&] { return call(SYS_ioctl, -1, TIOCGWINSZ, address); }), EBADF)
      << "the kernel's answer";
}

TEST(SeccompProfile, PoolsOfTheWholeKernelAreOutOfReach) {
  EXPECT_EQ(run_under(kPlain,
                      [] {
                        unsigned long context = 0;
                        return call(SYS_io_setup, 1, reinterpret_cast<long>(&context));
                      }),
            ENOSYS);
  const auto attach = [](long option) {
    return run_under(kPlain, [&] {
      sock_filter filter[] = {BPF_STMT(BPF_RET | BPF_K, 0xffff)};
      const sock_fprog program{1, filter};
      const int socket = ::socket(AF_INET, SOCK_DGRAM, 0);
      return call(SYS_setsockopt, socket, SOL_SOCKET, option, reinterpret_cast<long>(&program), sizeof program);
    });
  };
  for (const long option : {SO_ATTACH_FILTER, SO_ATTACH_REUSEPORT_CBPF, SO_ATTACH_BPF, SO_ATTACH_REUSEPORT_EBPF}) {
    EXPECT_EQ(attach(option), EPERM) << option;
    EXPECT_EQ(attach(1L << 32 | option), EPERM) << "rubbish in the upper half";
  }
  EXPECT_EQ(run_under(kPlain,
                      [] {
                        const int on = 1, socket = ::socket(AF_INET, SOCK_DGRAM, 0);
                        return ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
                      }),
            0);
}

// The kernel starts the host's core_pattern for any limit but 1.
TEST(SeccompProfile, TheCoreLimitStays) {
  static constexpr rlimit kZero{0, 0};
  const auto core_limit_after = [](const std::function<int()>& change) {
    return [&change]() -> int {
      const int failed = change();
      rlimit now{};
      if (call(SYS_prlimit64, 0, RLIMIT_CORE, 0, reinterpret_cast<long>(&now)) != 0) return 100;
      return failed != 0 ? failed : now.rlim_cur == 0 ? 101 : 0;
    };
  };
  rlimit old{};
  const long zero = reinterpret_cast<long>(&kZero), kept = reinterpret_cast<long>(&old);
  const rlimit before = [] {
    rlimit now{};
    ::getrlimit(RLIMIT_CORE, &now);
    const rlimit one{1, now.rlim_max};
    ::setrlimit(RLIMIT_CORE, &one);
    return now;
  }();
  const auto run = [&](const std::function<int()>& change) { return run_under(kPlain, core_limit_after(change)); };
  EXPECT_EQ(run([&] { return call(SYS_setrlimit, RLIMIT_CORE, zero); }), 0) << "as if it had worked";
  EXPECT_EQ(run([&] { return call(SYS_setrlimit, (1L << 32) | RLIMIT_CORE, zero); }), 0);
  EXPECT_EQ(run([&] { return call(SYS_prlimit64, 0, RLIMIT_CORE, zero, 0); }), 0);
  EXPECT_EQ(run([&] { return call(SYS_prlimit64, 0, RLIMIT_CORE, zero, kept); }), EPERM)
      << "the old limit is asked for";
  EXPECT_EQ(run([&] {
              // An address whose lower half looks like none.
              void* place = ::mmap(reinterpret_cast<void*>(1L << 45), 4096, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
              if (place == MAP_FAILED) return 102;
              return call(SYS_prlimit64, 0, RLIMIT_CORE, reinterpret_cast<long>(place), 0);
            }),
            0);
  EXPECT_EQ(run([&] { return call(SYS_prlimit64, 0, RLIMIT_NPROC, 0, kept); }), 0) << "other limits can be read";
  EXPECT_EQ(run([&] { return call(SYS_prlimit64, 0, RLIMIT_FSIZE, zero, 0); }), 0) << "and set";
  ::setrlimit(RLIMIT_CORE, &before);
}

TEST(SeccompProfile, DebuggersWork) {
  EXPECT_EQ(run_under(kPlain,
                      [] {
                        const pid_t pid = ::fork();
                        if (pid == 0) {
                          ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
                          ::raise(SIGSTOP);
                          ::_exit(6);
                        }
                        int status = 0;
                        ::waitpid(pid, &status, 0);
                        if (!WIFSTOPPED(status)) return 1;
                        ::ptrace(PTRACE_CONT, pid, nullptr, nullptr);
                        ::waitpid(pid, &status, 0);
                        return WEXITSTATUS(status);
                      }),
            6);
  EXPECT_EQ(run_under(kPlain, [] { return call(SYS_personality, ADDR_NO_RANDOMIZE); }), 0) << "gdb";
  EXPECT_EQ(run_under(kPlain, [] { return call(SYS_personality, 0xffffffff); }), 0) << "only asks";
  EXPECT_EQ(run_under(kPlain, [] { return call(SYS_personality, READ_IMPLIES_EXEC); }), EPERM);
}

TEST(SeccompProfile, UnknownAndNewerCallsDoNotExist) {
  EXPECT_EQ(run_under(kPlain, [] { return call(457); }), ENOSYS) << "statmount";
  EXPECT_EQ(run_under(kPlain, [] { return call(5000); }), ENOSYS);
}

TEST(SeccompProfile, IsCompiledOnce) {
  EXPECT_EQ(seccomp_program(kPlain)->data(), seccomp_program(kPlain)->data());
  EXPECT_NE(seccomp_program(kPlain)->data(), seccomp_program(kNested)->data());
  EXPECT_LT(seccomp_program(kPlain)->size(), 400u) << "installing it costs by length";
}

}  // namespace
}  // namespace osb::sandboxd
