#pragma once

#include <cerrno>
#include <chrono>
#include <functional>
#include <linux/sched.h>
#include <optional>
#include <sched.h>
#include <signal.h>
#include <string>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "kernel/limited_cgroup.h"
#include "sys/pidfd.h"

namespace osb::kernel {

constexpr std::chrono::seconds kSoon{20};  // for what happens at once on a machine that is not overloaded

struct Member {
  pid_t pid = -1;
  UniqueFd pidfd;
};

// Runs `body` in a child that is born in `cgroup`.
inline Member start_in(const LimitedCgroup& cgroup, const std::function<int()>& body) {
  auto join = cgroup.open_join();
  if (!join) {
    ADD_FAILURE() << join.error().message;
    return Member();
  }
  int pidfd = -1;
  clone_args args{};
  args.flags = CLONE_INTO_CGROUP | CLONE_PIDFD;
  args.pidfd = reinterpret_cast<std::uintptr_t>(&pidfd);
  args.exit_signal = SIGCHLD;
  args.cgroup = static_cast<std::uint64_t>(join->v2_directory.get());
  const auto pid = static_cast<pid_t>(::syscall(SYS_clone3, &args, sizeof args));
  if (pid == 0) {
    // Bounded in any case, should the cgroup not do it.
    const rlimit memory{1 << 30, 1 << 30};
#if !defined(__SANITIZE_ADDRESS__) && !__has_feature(address_sanitizer)
    ::setrlimit(RLIMIT_AS, &memory);
#endif
    (void)memory;
    ::alarm(60);
    for (const UniqueFd& tasks : join->v1_tasks) {
      if (::write(tasks.get(), "0", 1) != 1) ::_exit(99);
    }
    ::_exit(body());
  }
  EXPECT_GT(pid, 0) << errno;
  return {pid, UniqueFd(pidfd)};
}

inline int wait_status(const Member& member) {
  int status = -1;
  EXPECT_TRUE(sys::wait_ended(member.pidfd.get(), kSoon)) << "still running";
  EXPECT_EQ(::waitpid(member.pid, &status, 0), member.pid);
  return status;
}

inline int sleep_for_ever() {
  for (;;) ::pause();
}

class LimitedCgroupTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    auto opened = LimitedCgroups::open("osb-test-" + std::to_string(::getpid()));
    ASSERT_TRUE(opened) << opened.error().message;
    cgroups_.emplace(std::move(*opened));
  }
  void TearDown() override {
    if (!cgroups_) return;
    for (const std::string& id : cgroups_->list()) {
      const auto cgroup = cgroups_->open_existing(id);
      ASSERT_TRUE(cgroup);
      EXPECT_TRUE(cgroup->kill());
      EXPECT_TRUE(cgroup->wait_empty(kSoon).value());
      while (::waitpid(-1, nullptr, WNOHANG) > 0) {
      }
      const auto removed = cgroup->remove();
      EXPECT_TRUE(removed) << removed.error().message;
    }
    const auto removed = cgroups_->remove_parent();
    EXPECT_TRUE(removed) << removed.error().message;
  }
  LimitedCgroup make(const Limits& limits = {}, const std::string& id = "a") {
    auto made = cgroups_->create(id, limits);
    EXPECT_TRUE(made) << made.error().message;
    return made.value();
  }
  std::optional<LimitedCgroups> cgroups_;
};

}  // namespace osb::kernel
