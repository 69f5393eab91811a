#include "kernel/seccomp_policy.h"

#include <functional>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace osb::kernel {
namespace {

using Argument = SeccompPolicy::Argument;
constexpr auto kWhole = SeccompPolicy::kWhole;

// Runs `body` under the program in a child; its exit code, or minus the signal that ended it. Raw exit: the policy may
// know no other call.
int run_under(const SeccompPolicy& policy, const std::function<int()>& body) {
  const auto program = policy.program();
  if (!program) return ADD_FAILURE() << program.error().message, -1000;
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (install_seccomp(*program) != 0) ::_exit(250);
    ::syscall(SYS_exit_group, body());
  }
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// 0 when the call works, else its errno.
template <typename... A>
int error_of(long number, A... arguments) {
  return ::syscall(number, arguments...) < 0 ? errno : 0;
}

TEST(SeccompPolicy, CallsThatAreNotNamedAreUnknown) {
  SeccompPolicy policy;
  policy.allow({"exit_group", "getpid"}).deny({"getppid"}).deny({"getuid"}, EACCES);
  EXPECT_EQ(run_under(policy, [] { return error_of(SYS_getpid); }), 0);
  EXPECT_EQ(run_under(policy, [] { return error_of(SYS_getppid); }), EPERM);
  EXPECT_EQ(run_under(policy, [] { return error_of(SYS_getuid); }), EACCES);
  EXPECT_EQ(run_under(policy, [] { return error_of(SYS_getgid); }), ENOSYS);
  EXPECT_EQ(run_under(policy, [] { return error_of(100'000); }), ENOSYS);
  EXPECT_EQ(run_under(policy, [] { return error_of(-1); }), ENOSYS);
}

TEST(SeccompPolicy, UnknownNamesAreSkipped) {
  SeccompPolicy policy;
  policy.allow({"exit_group", "no_such_call_ever", "fchmodat2"});
  EXPECT_EQ(run_under(policy, [] { return 7; }), 7);
  EXPECT_NE(run_under(policy, [] { return error_of(452, -1, "", 0, 0); }), 0);
}

TEST(SeccompPolicy, TheFirstConditionThatHoldsDecides) {
  SeccompPolicy policy;
  policy.allow({"exit_group"})
      .deny_if("dup", {Argument{0, kWhole, 1}}, EACCES)
      .allow_if("dup", {Argument{0, ~1u, 0}})
      .deny({"dup"}, ENOTSUP)
      .allow_if("lseek", {Argument{0, kWhole, 5}, Argument{2, kWhole, SEEK_CUR}});
  EXPECT_EQ(run_under(policy, [] { return error_of(SYS_dup, 0); }), 0);
  EXPECT_EQ(run_under(policy, [] { return error_of(SYS_dup, 1); }), EACCES) << "named before the mask";
  EXPECT_EQ(run_under(policy, [] { return error_of(SYS_dup, 2); }), ENOTSUP);
  EXPECT_EQ(run_under(policy, [] { return error_of(SYS_lseek, 5, 0, SEEK_CUR); }), EBADF) << "both hold: the kernel's";
  EXPECT_EQ(run_under(policy, [] { return error_of(SYS_lseek, 5, 0, SEEK_SET); }), ENOSYS);
  EXPECT_EQ(run_under(policy, [] { return error_of(SYS_lseek, 6, 0, SEEK_CUR); }), ENOSYS);
}

TEST(SeccompPolicy, TheUpperHalfOfAnArgumentChangesNothing) {
  SeccompPolicy policy;
  policy.allow({"exit_group"}).deny_if("dup", {Argument{0, kWhole, 1}}, EACCES).allow({"dup"});
  EXPECT_EQ(run_under(policy, [] { return error_of(SYS_dup, (1L << 40) | 1); }), EACCES);
}

TEST(SeccompPolicy, APointerIsNullOnlyIfBothHalvesAre) {
  SeccompPolicy policy;
  policy.allow({"exit_group"})
      .allow_if("dup", {Argument{0, kWhole, 0}, Argument{0, kWhole, 0, true}})
      .deny({"dup"}, EACCES);
  EXPECT_EQ(run_under(policy, [] { return error_of(SYS_dup, 0L); }), 0);
  EXPECT_EQ(run_under(policy, [] { return error_of(SYS_dup, 1L << 32); }), EACCES);
  EXPECT_EQ(run_under(policy, [] { return error_of(SYS_dup, 1L); }), EACCES);
}

TEST(SeccompPolicy, TheLastUnconditionalRuleCounts) {
  SeccompPolicy policy;
  policy.allow({"exit_group", "getuid"}).deny({"getuid"}).deny({"getgid"}).allow({"getgid"});
  EXPECT_EQ(run_under(policy, [] { return error_of(SYS_getuid); }), EPERM);
  EXPECT_EQ(run_under(policy, [] { return error_of(SYS_getgid); }), 0);
}

#if defined(__x86_64__)
TEST(SeccompPolicy, OtherArchitecturesAreKilled) {
  SeccompPolicy policy;
  policy.allow({"exit_group", "getpid"});
  EXPECT_EQ(run_under(policy, [] { return error_of(0x4000'0000 | SYS_getpid); }), -SIGSYS) << "x32";
  const auto i386_getpid = [] {
    long number = 20;
    asm volatile("int $0x80" : "+a"(number) : : "memory", "r8", "r9", "r10", "r11");
    return 0;
  };
  EXPECT_EQ(run_under(policy, i386_getpid), -SIGSYS) << "i386";
}
#endif

// Long enough that jumps do not fit into eight bits.
TEST(SeccompPolicy, LargeProgramsJumpFar) {
  SeccompPolicy policy;
  policy.allow({"exit_group"});
  for (const char* name : {"read", "lseek", "dup", "getpid", "socket", "fcntl", "flock", "kill", "listen", "bind"}) {
    for (std::uint32_t value = 100; value < 120; ++value) {
      policy.deny_if(name, {Argument{0, kWhole, value}, Argument{1, kWhole, value}}, static_cast<int>(value));
    }
    policy.allow({name});
  }
  ASSERT_GT(policy.program()->size(), 1000u);
  EXPECT_EQ(run_under(policy, [] { return error_of(SYS_read, 119, 119, 0); }), 119);
  EXPECT_EQ(run_under(policy, [] { return error_of(SYS_read, 119, 118, 0); }), EBADF);
  EXPECT_EQ(run_under(policy, [] { return error_of(SYS_flock, 101, 101); }), 101);
  EXPECT_EQ(run_under(policy, [] { return error_of(SYS_listen, 100, 100); }), 100);
  EXPECT_EQ(run_under(policy, [] { return error_of(SYS_getuid); }), ENOSYS);
  EXPECT_EQ(run_under(policy, [] { return error_of(SYS_getpid, 0, 0); }), 0);
}

TEST(SeccompPolicy, AnEmptyProgramIsRefused) { EXPECT_EQ(install_seccomp({}), EINVAL); }

}  // namespace
}  // namespace osb::kernel
