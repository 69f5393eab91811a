#include <optional>

#include <fmt/format.h>

#include "kernel/limited_cgroup.h"
#include "sandboxd/launch/launch_fixture.h"

namespace osb::sandboxd {
namespace {

using ::testing::HasSubstr;

class LaunchCgroupTest : public LaunchTest {
 protected:
  void SetUp() override {
    LaunchTest::SetUp();
    if (IsSkipped()) return;
    auto opened = kernel::LimitedCgroups::open(parent_);
    ASSERT_TRUE(opened) << opened.error().message;
    cgroups_.emplace(std::move(*opened));
    auto made = cgroups_->create("box", {.memory_bytes = 64 << 20, .pids = 32});
    ASSERT_TRUE(made) << made.error().message;
    cgroup_.emplace(std::move(*made));
    auto join = cgroup_->open_join();
    ASSERT_TRUE(join) << join.error().message;
    join_ = std::move(*join);
  }
  void TearDown() override {
    if (cgroup_) {
      EXPECT_TRUE(cgroup_->wait_empty(std::chrono::seconds(10)).value_or(false));
      EXPECT_TRUE(cgroup_->remove());
    }
    if (cgroups_) EXPECT_TRUE(cgroups_->remove_parent());
  }

  LaunchPlan joined(const std::string& script) {
    LaunchPlan wanted = plan(script);
    wanted.cgroup.v2_directory = join_.v2_directory.get();
    for (const UniqueFd& tasks : join_.v1_tasks) wanted.cgroup.v1_tasks.push_back(tasks.get());
    return wanted;
  }

  const std::string parent_ = fmt::format("osb-launch-test-{}", ::getpid());
  std::optional<kernel::LimitedCgroups> cgroups_;
  std::optional<kernel::LimitedCgroup> cgroup_;
  kernel::CgroupJoin join_;
};

TEST_F(LaunchCgroupTest, IsBornInItsCgroupAndLimitedThere) {
  const std::string said =
      output_of(joined("cat /proc/self/cgroup; for i in 1 2 3 4 5 6 7 8; do sleep 0 & done; wait"));
  EXPECT_THAT(said, HasSubstr(fmt::format("0::/{}/box\n", parent_)));
  EXPECT_TRUE(join_.v1_tasks.empty() || said.find(fmt::format("memory:/{}/box\n", parent_)) != std::string::npos)
      << said;
}

TEST_F(LaunchCgroupTest, SeesItsOwnCgroupAsTheTopReadOnly) {
  auto wanted = joined(
      "grep ^0:: /proc/self/cgroup; grep ^1$ /sys/fs/cgroup/cgroup.procs; echo 1 > /sys/fs/cgroup/cgroup.freeze");
  wanted.cgroup.view = {{"", join_.v2_directory.get()}};
  EXPECT_EQ(output_of(std::move(wanted)),
            "0::/\n1\nsh: can't create /sys/fs/cgroup/cgroup.freeze: Read-only file system\n");
}

TEST_F(LaunchCgroupTest, SeesV1ControllersByName) {
  const UniqueFd memory(
      ::open(fmt::format("/sys/fs/cgroup/memory/{}/box", parent_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!memory) GTEST_SKIP() << "no v1 memory controller on this host";
  auto wanted = joined("ls /sys/fs/cgroup; cat /sys/fs/cgroup/memory/memory.limit_in_bytes; mkdir /sys/fs/cgroup/x");
  wanted.cgroup.view = {{"memory", memory.get()}, {"unified", join_.v2_directory.get()}};
  EXPECT_EQ(output_of(std::move(wanted)),
            "memory\nunified\n67108864\nmkdir: can't create directory '/sys/fs/cgroup/x': Read-only file system\n");
}

}  // namespace
}  // namespace osb::sandboxd
