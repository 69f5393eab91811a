#include "sys/cgroup.h"

#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <signal.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/temp_dir.h"
#include "sys/spawn.h"
#include "sys/text_file.h"

namespace osb::sys {
namespace {

namespace fs = std::filesystem;

// A host made of plain files.
class FakeHost {
 public:
  FakeHost(const std::string& membership, const std::string& mounts) {
    std::ofstream(dir_ / "cgroup") << membership;
    std::string text = mounts;
    for (std::size_t at; (at = text.find('@')) != std::string::npos;) text.replace(at, 1, dir_.path().string());
    std::ofstream(dir_ / "mountinfo") << text;
  }
  CgroupSources sources() const { return {dir_ / "cgroup", dir_ / "mountinfo"}; }
  std::string make(const std::string& path) {
    fs::create_directories(dir_ / path);
    return dir_ / path;
  }

 private:
  testing::TempDir dir_;
};

TEST(FindCgroups, V2) {
  FakeHost host("0::/a/b\n", "30 20 0:26 / @/sys rw,nosuid shared:4 - cgroup2 cgroup2 rw\n");
  const std::string own = host.make("sys/a/b");
  const auto found = find_cgroups(host.sources());
  ASSERT_TRUE(found.v2);
  EXPECT_EQ(found.v2->path, own);
  EXPECT_EQ(found.v2->mount + "/a/b", own);
  EXPECT_TRUE(found.v1.empty());
}

TEST(FindCgroups, V1WithControllersThatShareAHierarchy) {
  FakeHost host("5:cpu,cpuacct:/box\n4:memory:/box\n1:name=systemd:/\n",
                "1 1 0:1 / @/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
                "2 1 0:2 /box @/memory rw - cgroup cgroup rw,memory\n"
                "3 1 0:3 / @/with\\040space rw - cgroup none rw,name=systemd\n");
  const std::string cpu = host.make("cpu/box"), memory = host.make("memory"), named = host.make("with space");
  const auto found = find_cgroups(host.sources());
  EXPECT_FALSE(found.v2);
  EXPECT_EQ(found.v1.at("cpu").path, cpu);
  EXPECT_EQ(found.v1.at("cpuacct").path, cpu);
  EXPECT_EQ(found.v1.at("memory").path, memory) << "mounted with our cgroup as its root";
  EXPECT_EQ(found.v1.at("name=systemd").path, named);
}

TEST(FindCgroups, APathThatCannotBeSeenMeansTheMountPoint) {
  struct {
    const char* why;
    const char* path;
  } rows[] = {{"another namespace's", "/../../elsewhere"}, {"not mounted here", "/kubepods/x"}};
  for (const auto& row : rows) {
    FakeHost host(std::string("0::") + row.path + "\n", "30 20 0:26 / @/sys rw - cgroup2 cgroup2 rw\n");
    const std::string mount = host.make("sys");
    EXPECT_EQ(find_cgroups(host.sources()).v2->path, mount) << row.why;
  }
}

TEST(FindCgroups, BrokenOrMissingFilesMeanNone) {
  FakeHost host("nonsense\n::\n7\n", "x\n - \n1 2 3 - cgroup2\n- - -\n");
  EXPECT_FALSE(find_cgroups(host.sources()).v2);
  EXPECT_FALSE(find_cgroups({"/no/such", "/no/such"}).v2);
}

TEST(CommandCgroups, NoneWhenNothingIsMounted) {
  FakeHost host("0::/\n", "");
  EXPECT_FALSE(CommandCgroups::find(host.sources()));
}

TEST(CommandCgroups, V2ComesBeforeV1) {
  FakeHost host("2:freezer:/\n0::/\n",
                "1 1 0:1 / @/freezer rw - cgroup cgroup rw,freezer\n2 1 0:2 / @/unified rw - cgroup2 cgroup2 rw\n");
  host.make("freezer");
  const std::string unified = host.make("unified");
  const auto found = CommandCgroups::find(host.sources());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->directory(), unified);
  const auto leaf = found->create_leaf("c1");
  ASSERT_TRUE(leaf) << leaf.error().message;
  EXPECT_EQ(leaf->join_file(), unified + "/c1/cgroup.procs");
  EXPECT_EQ(found->create_leaf("c1").error().code, Code::Conflict);
  std::ofstream(leaf->directory() + "/cgroup.kill") << "";
  EXPECT_TRUE(leaf->kill());
  EXPECT_EQ(*read_text(leaf->directory() + "/cgroup.kill"), "1");
}

TEST(CommandCgroups, V1JoinsByTask) {
  FakeHost host("2:pids:/a\n", "1 1 0:1 / @/pids rw - cgroup cgroup rw,pids\n");
  const std::string own = host.make("pids/a");
  const auto found = CommandCgroups::find(host.sources());
  ASSERT_TRUE(found);
  const auto leaf = found->create_leaf("c1");
  ASSERT_TRUE(leaf);
  EXPECT_EQ(leaf->join_file(), own + "/c1/tasks");
  EXPECT_TRUE(leaf->kill()) << "no member";
  EXPECT_TRUE(leaf->remove());
  EXPECT_TRUE(leaf->remove()) << "gone already";
  EXPECT_FALSE(fs::exists(leaf->directory()));
}

TEST(CommandCgroups, NamesStayInTheirDirectory) {
  FakeHost host("0::/\n", "2 1 0:2 / @/unified rw - cgroup2 cgroup2 rw\n");
  host.make("unified");
  const auto found = CommandCgroups::find(host.sources());
  ASSERT_TRUE(found);
  for (const char* name : {"", "..", "a/b", "/"}) EXPECT_FALSE(found->create_leaf(name)) << name;
}

// On the real host, in each hierarchy that lets us: a command that forks ends with its cgroup.
class RealCgroup : public ::testing::TestWithParam<const char*> {};

TEST_P(RealCgroup, KillEndsAllMembers) {
  testing::TempDir dir;
  const auto real = find_cgroups();
  const bool v2 = std::string_view(GetParam()) == "v2";
  if (v2 ? !real.v2 : !real.v1.contains(GetParam())) GTEST_SKIP() << "no such hierarchy here";
  // Only this hierarchy is shown to the code under test.
  const auto& own = v2 ? *real.v2 : real.v1.at(GetParam());
  std::ofstream(dir / "cgroup") << (v2 ? "0::/\n" : "1:" + std::string(GetParam()) + ":/\n");
  std::ofstream(dir / "mountinfo") << "1 1 0:1 / " + own.path + " rw - " +
                                          (v2 ? "cgroup2 cgroup2 rw" : "cgroup cgroup rw," + std::string(GetParam())) +
                                          "\n";
  const auto cgroups = CommandCgroups::find({dir / "cgroup", dir / "mountinfo"});
  if (!cgroups) GTEST_SKIP() << "not writable: needs root";
  const auto leaf = cgroups->create_leaf("osb-test-" + std::to_string(::getpid()));
  if (!leaf) GTEST_SKIP() << leaf.error().message;

  int fds[2];
  ASSERT_EQ(::pipe2(fds, O_CLOEXEC), 0);
  UniqueFd reader(fds[0]), writer(fds[1]);
  SpawnPlan plan;
  plan.program = "/bin/sh";
  plan.argv = {"sh", "-c", "sleep 1000 & setsid sleep 1000 & echo; wait"};
  plan.env = {"PATH=/usr/bin:/bin"};
  plan.cgroup_procs = {leaf->join_file()};
  plan.fds = {{1, writer.get()}};
  const auto child = spawn(plan);
  ASSERT_TRUE(child) << child.error().message;
  writer.reset();
  char c;
  ASSERT_EQ(::read(reader.get(), &c, 1), 1);
  EXPECT_GE(leaf->pids().size(), 3U);
  EXPECT_THAT(leaf->pids(), ::testing::Contains(child->pid));
  EXPECT_EQ(leaf->remove().error().sys_errno, EBUSY);
  EXPECT_TRUE(leaf->kill());
  EXPECT_EQ(::read(reader.get(), &c, 1), 0) << "the end: no process holds the pipe";
  EXPECT_EQ(reap(*child)->signal, SIGKILL);
  // The pipe is closed before a task leaves its cgroup: the last ones may still be on their way.
  while (!leaf->pids().empty()) ::sched_yield();
  EXPECT_TRUE(leaf->remove());
}

INSTANTIATE_TEST_SUITE_P(Hierarchies, RealCgroup, ::testing::Values("v2", "freezer", "pids", "name=systemd"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '=');
                           return name;
                         });

}  // namespace
}  // namespace osb::sys
