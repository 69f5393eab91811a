#include <filesystem>
#include <fstream>
#include <iterator>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel/limited_cgroup.h"
#include "kernel/limited_cgroup_fixture.h"
#include "support/temp_dir.h"

namespace osb::kernel {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using LimitedCgroupsTest = LimitedCgroupTest;

// A host as `membership` and `mounts` describe it; the directories are real.
class DescribedHost {
 public:
  DescribedHost(const std::string& membership, const std::string& mounts) {
    std::ofstream(dir_ / "cgroup") << membership;
    std::ofstream(dir_ / "mountinfo") << mounts;
  }
  sys::CgroupSources sources() const { return {dir_ / "cgroup", dir_ / "mountinfo"}; }

 private:
  testing::TempDir dir_;
};

std::vector<std::string> words(const std::string& path) {
  std::ifstream in(path);
  return {std::istream_iterator<std::string>(in), {}};
}

// In a container the top of what we see is a cgroup like any other: with controllers for its children it may have no
// processes of its own.
TEST_F(LimitedCgroupsTest, ProcessesAtTheTopMakeRoom) {
  const auto top = make();
  const auto member = start_in(top, sleep_for_ever);
  const DescribedHost host("0::/here\n", "1 1 0:1 /here " + top.v2_directory() + " rw - cgroup2 cgroup2 rw\n");
  const auto inner = LimitedCgroups::open("inner", host.sources());
  ASSERT_TRUE(inner) << inner.error().message;
  const auto offered = words(top.v2_directory() + "/cgroup.controllers");
  EXPECT_EQ(words(top.v2_directory() + "/cgroup.subtree_control"), offered);
  // Without any controller in v2 there is no such rule.
  const std::string where = offered.empty() ? "" : "/daemon";
  EXPECT_THAT(words(top.v2_directory() + where + "/cgroup.procs"), ElementsAre(std::to_string(member.pid)));
  const auto made = inner->create("x", {});
  ASSERT_TRUE(made) << made.error().message;
  const auto limited = made->update({.memory_bytes = 64 << 20});
  EXPECT_EQ(limited.has_value(), inner->support().memory);
  if (!limited) {
    EXPECT_EQ(limited.error().code, Code::Unsupported);
    EXPECT_THAT(limited.error().message, HasSubstr("no memory cgroup controller"));
  }
  EXPECT_TRUE(made->remove());
}

TEST_F(LimitedCgroupsTest, AUnitDelegatedBySystemdIsTheTop) {
  const auto unit = make();
  const std::string path = unit.v2_directory();
  ASSERT_EQ(::mkdir((path + "/daemon").c_str(), 0755), 0);
  const DescribedHost host("0::/a/daemon\n", "1 1 0:1 /a " + path + " rw - cgroup2 cgroup2 rw\n");
  const auto undelegated = LimitedCgroups::open("x", host.sources());
  ASSERT_TRUE(undelegated) << undelegated.error().message;

  const std::string deeper = path + "/unit/daemon";
  ASSERT_EQ(::mkdir((path + "/unit").c_str(), 0755), 0);
  ASSERT_EQ(::mkdir(deeper.c_str(), 0755), 0);
  ASSERT_EQ(::setxattr((path + "/unit").c_str(), "trusted.delegate", "1", 1, 0), 0) << errno;
  const DescribedHost systemd("0::/a/unit/daemon\n", "1 1 0:1 /a " + path + " rw - cgroup2 cgroup2 rw\n");
  const auto delegated = LimitedCgroups::open("y", systemd.sources());
  ASSERT_TRUE(delegated) << delegated.error().message;
  EXPECT_EQ(::access((path + "/unit/y").c_str(), F_OK), 0);
  EXPECT_EQ(::access((path + "/y").c_str(), F_OK), -1);
  EXPECT_EQ(::access((path + "/x").c_str(), F_OK), 0);
}

// A host of plain files, where nothing appears in a new directory by itself.
TEST(LimitedCgroups, ControllersComeFromTheHierarchyThatHasThem) {
  const testing::TempDir root;
  const std::string top = root.path();
  fs::create_directories(root / "v2/osb");
  fs::create_directories(root / "cpu");
  for (const char* directory : {"v2", "v2/osb"}) {
    std::ofstream(root / directory / "cgroup.controllers") << "memory pids hugetlb\n";
    std::ofstream(root / directory / "cgroup.subtree_control") << "memory pids\n";
  }
  for (const char* file : {"memory.max", "memory.swap.max", "pids.max"}) std::ofstream(root / "v2/osb" / file) << "";
  const DescribedHost host("1:cpu,cpuacct:/\n0::/\n", "1 1 0:1 / " + top + "/v2 rw - cgroup2 cgroup2 rw\n" +
                                                          "2 1 0:2 / " + top +
                                                          "/cpu rw - cgroup cgroup rw,cpu,cpuacct\n");
  const auto cgroups = LimitedCgroups::open("osb", host.sources());
  ASSERT_TRUE(cgroups) << cgroups.error().message;
  const auto support = cgroups->support();
  EXPECT_EQ(support.mode, "hybrid");
  EXPECT_TRUE(support.memory && support.swap && support.pids);
  EXPECT_FALSE(support.cpu) << "the controller is there, but without quotas";
  EXPECT_FALSE(support.io);
  EXPECT_TRUE(fs::is_directory(root / "cpu/osb"));

  ASSERT_TRUE(cgroups->create("plain", {}));
  EXPECT_TRUE(fs::is_directory(root / "v2/osb/plain") && fs::is_directory(root / "cpu/osb/plain"));
  const struct {
    Limits limits;
    const char* said;
  } rows[] = {{{.memory_bytes = 64 << 20}, "memory limit of 67108864 bytes"},
              {{.cpu_millis = 100}, "cpu limit of 100 millis"},
              {{.io = Limits::Io{.device = makedev(8, 0), .read_bytes_per_second = 1}}, "no io cgroup controller"}};
  for (const auto& row : rows) {
    const auto failed = cgroups->create("a", row.limits);
    EXPECT_EQ(failed.error().code, Code::Unsupported);
    EXPECT_THAT(failed.error().message, HasSubstr(row.said));
    EXPECT_THAT(cgroups->list(), ElementsAre("plain")) << "undone";
    EXPECT_FALSE(fs::exists(root / "cpu/osb/a")) << "undone";
  }
}

// Leftovers of a crash between two steps.
TEST(LimitedCgroups, LeftoversInAV1HierarchyAreReplaced) {
  const testing::TempDir root;
  fs::create_directories(root / "v2/osb");
  fs::create_directories(root / "pids/osb/a/below");
  const std::string top = root.path();
  const DescribedHost host("1:pids:/\n0::/\n", "1 1 0:1 / " + top + "/v2 rw - cgroup2 cgroup2 rw\n" + "2 1 0:2 / " +
                                                   top + "/pids rw - cgroup cgroup rw,pids\n");
  const auto cgroups = LimitedCgroups::open("osb", host.sources());
  ASSERT_TRUE(cgroups) << cgroups.error().message;
  EXPECT_TRUE(cgroups->list().empty()) << "the v2 directory goes last, so there is no such cgroup any more";
  const auto made = cgroups->create("a", {});
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_TRUE(fs::is_empty(root / "pids/osb/a"));
  EXPECT_TRUE(made->remove());
  EXPECT_FALSE(fs::exists(root / "pids/osb/a"));
}

TEST(LimitedCgroups, AHostWithoutCgroup2GetsAMountOfOurOwn) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  const DescribedHost host("1:cpu:/\n", "");
  const auto cgroups = LimitedCgroups::open("osb-test-own-" + std::to_string(::getpid()), host.sources());
  ASSERT_TRUE(cgroups) << cgroups.error().message;
  const auto made = cgroups->create("a", {});
  ASSERT_TRUE(made) << made.error().message;
  const auto member = start_in(*made, sleep_for_ever);
  EXPECT_TRUE(made->freeze(true));
  EXPECT_EQ(made->frozen().value(), true);
  EXPECT_TRUE(made->kill());
  EXPECT_EQ(made->wait_empty(kSoon).value(), true);
  wait_status(member);
  EXPECT_TRUE(made->remove());
  EXPECT_TRUE(cgroups->remove_parent());
}

TEST(LimitedCgroups, AParentCannotLeadElsewhere) {
  for (const char* bad : {"", "/abs", "a/../b", "..", "a//b", "."}) {
    EXPECT_EQ(LimitedCgroups::open(bad).error().code, Code::InvalidRequest) << bad;
  }
}

TEST(LimitedCgroups, ANestedParentIsMade) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  const std::string outer = "osb-test-outer-" + std::to_string(::getpid());
  const auto inner = LimitedCgroups::open(outer + "/inner");
  ASSERT_TRUE(inner) << inner.error().message;
  const auto made = inner->create("a", {.memory_bytes = 64 << 20, .pids = 20});
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->usage()->memory_limit_bytes, 64u << 20);
  EXPECT_TRUE(made->remove());
  EXPECT_TRUE(inner->remove_parent());
  EXPECT_TRUE(LimitedCgroups::open(outer)->remove_parent());
}

}  // namespace
}  // namespace osb::kernel
