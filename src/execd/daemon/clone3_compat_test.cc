#include "execd/daemon/clone3_compat.h"

#include <cerrno>
#include <linux/sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace osb::execd {
namespace {

TEST(Clone3Compat, ValuesAreTrimmedAndReadInAnyCase) {
  for (const char* off : {"", "  ", "0", "False", "OFF", "no"}) {
    EXPECT_EQ(parse_clone3_compat(off).value(), Clone3Compat::Off) << off;
  }
  for (const char* on : {"1", " true ", "YES", "On\n"}) {
    EXPECT_EQ(parse_clone3_compat(on).value(), Clone3Compat::On) << on;
  }
  EXPECT_EQ(parse_clone3_compat("ReExec").value(), Clone3Compat::Reexec);
  EXPECT_FALSE(parse_clone3_compat("2"));
  EXPECT_FALSE(parse_clone3_compat("enabled"));
}

// In a child: the filter stays for good.
TEST(Clone3Compat, Clone3IsUnknownToTheKernelAndForkGoesOn) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (!forbid_clone3()) ::_exit(1);
    clone_args args{};
    args.exit_signal = SIGCHLD;
    if (::syscall(SYS_clone3, &args, sizeof args) != -1 || errno != ENOSYS) ::_exit(2);
    const pid_t grandchild = ::fork();
    if (grandchild == 0) ::_exit(0);
    int status = 0;
    ::_exit(grandchild > 0 && ::waitpid(grandchild, &status, 0) == grandchild && status == 0 ? 0 : 3);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace osb::execd
