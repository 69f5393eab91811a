#include "execd/daemon/core_limit.h"

#include <cerrno>
#include <functional>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace osb::execd {
namespace {

// The filter stays for good: each check has a process of its own. True if `holds` says so there.
bool in_child(bool privileges, const std::function<bool()>& holds) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (!privileges) ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    ::_exit(keep_core_limit() && holds() ? 0 : 1);
  }
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool limit_is(rlim_t wanted) {
  rlimit now{};
  return ::getrlimit(RLIMIT_CORE, &now) == 0 && now.rlim_cur == wanted && now.rlim_max == wanted;
}

TEST(CoreLimit, IsOneByteAndStays) {
  const rlimit none{0, 0};
  EXPECT_TRUE(in_child(false, [] { return limit_is(1); }));
  EXPECT_TRUE(in_child(false, [&] { return ::setrlimit(RLIMIT_CORE, &none) == 0 && limit_is(1); }))
      << "by the C library";
  EXPECT_TRUE(in_child(false, [&] { return ::syscall(SYS_setrlimit, RLIMIT_CORE, &none) == 0 && limit_is(1); }));
  EXPECT_TRUE(in_child(false, [&] {
    return ::syscall(SYS_setrlimit, RLIMIT_CORE | std::uint64_t{1} << 32, &none) == 0 && limit_is(1);
  })) << "the kernel looks at the lower half";
  EXPECT_TRUE(in_child(false, [&] {
    rlimit old{};
    return ::prlimit(0, RLIMIT_CORE, &none, &old) < 0 && errno == EPERM && limit_is(1);
  }));
  EXPECT_TRUE(
      in_child(false, [&] { return ::syscall(SYS_prlimit64, ::getpid(), RLIMIT_CORE, &none, 0) == 0 && limit_is(1); }));
}

TEST(CoreLimit, OtherLimitsCanBeSet) {
  EXPECT_TRUE(in_child(false, [] {
    const rlimit files{16, 16};
    rlimit now{};
    return ::setrlimit(RLIMIT_NOFILE, &files) == 0 && ::getrlimit(RLIMIT_NOFILE, &now) == 0 && now.rlim_max == 16;
  }));
}

TEST(CoreLimit, WithPrivilegesToGainThereIsNoFilter) {
  EXPECT_TRUE(in_child(true, [] {
    const rlimit none{0, 0};
    return ::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0 && limit_is(1) && ::setrlimit(RLIMIT_CORE, &none) == 0 &&
           limit_is(0);
  }));
}

}  // namespace
}  // namespace osb::execd
