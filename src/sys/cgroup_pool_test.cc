#include "sys/cgroup_pool.h"

#include <filesystem>
#include <fstream>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/temp_dir.h"
#include "sys/pidfd.h"
#include "sys/process_tree.h"
#include "sys/spawn.h"
#include "sys/syscall.h"
#include "sys/text_file.h"

namespace osb::sys {
namespace {

namespace fs = std::filesystem;

bool wait_readable(int fd) {
  pollfd one{fd, POLLIN, 0};
  return ::poll(&one, 1, 20'000) == 1;
}

// In each hierarchy that lets us, below a cgroup of the test's own.
class CgroupPoolTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const auto real = find_cgroups();
    const std::string name = GetParam();
    const bool v2 = name == "v2";
    if (v2 ? !real.v2 : !real.v1.contains(name)) GTEST_SKIP() << "no such hierarchy here";
    own_ = (v2 ? *real.v2 : real.v1.at(name)).path + "/osb-test-pool-" + std::to_string(::getpid());
    if (!fs::create_directory(own_, error_)) GTEST_SKIP() << "not writable: needs root: " << error_.message();
    std::ofstream(dir_ / "cgroup") << (v2 ? "0::/\n" : "1:" + name + ":/\n");
    std::ofstream(dir_ / "mountinfo") << "1 1 0:1 / " + own_ + " rw - " +
                                             (v2 ? "cgroup2 cgroup2 rw" : "cgroup cgroup rw," + name) + "\n";
    ASSERT_TRUE(become_subreaper());
  }
  void TearDown() override {
    ::prctl(PR_SET_CHILD_SUBREAPER, 0);
    if (own_.empty()) return;
    while (::waitpid(-1, nullptr, 0) > 0) {
    }
    EXPECT_EQ(::rmdir(own_.c_str()), 0) << "everything below it is gone";
  }

  CgroupSources sources() const { return {dir_ / "cgroup", dir_ / "mountinfo"}; }

  std::vector<std::string> directories(const std::string& path) const {
    std::vector<std::string> out;
    for (const auto& entry : fs::directory_iterator(path)) {
      if (entry.is_directory()) out.push_back(entry.path());
    }
    return out;
  }

  // Runs a shell script in the cgroup and returns when it has written a line: a pid.
  Child start(const CgroupPool::Lease& lease, const std::string& script, pid_t* told = nullptr) {
    auto pipe = make_pipe();
    SpawnPlan plan;
    plan.program = "/bin/sh";
    plan.argv = {"sh", "-c", script};
    plan.env = {"PATH=/usr/bin:/bin"};
    plan.fds = {{1, pipe->write.get()}};
    const auto entry = lease->enter(plan);
    EXPECT_TRUE(entry) << entry.error().message;
    auto child = spawn(plan);
    EXPECT_TRUE(child) << child.error().message;
    if (!child) return Child();
    EXPECT_TRUE(child->in_cgroup);
    pipe->write.reset();
    std::string line;
    for (char c = 0; ::read(pipe->read.get(), &c, 1) == 1 && c != '\n';) line += c;
    if (told != nullptr) *told = std::stoi(line);
    return std::move(*child);
  }

  std::string own_;
  testing::TempDir dir_;
  std::error_code error_;
};

TEST_P(CgroupPoolTest, EmptyLeavesAreUsedAgain) {
  CgroupPool pool(sources());
  EXPECT_TRUE(directories(own_).empty()) << "nothing before it is needed";
  std::string first;
  for (int i = 0; i < 50; ++i) {
    const auto lease = pool.lease();
    ASSERT_TRUE(lease);
    if (first.empty()) first = lease->directory();
    EXPECT_EQ(lease->directory(), first);
    const Child child = start(lease, "echo");
    EXPECT_TRUE(reap(child)->ok());
  }
  EXPECT_EQ(pool.idle(), 1U);
  EXPECT_EQ(pool.events(), -1);

  std::vector<CgroupPool::Lease> many;
  for (int i = 0; i < 50; ++i) many.push_back(pool.lease());
  const auto copy = many.back();
  many.clear();
  EXPECT_LE(pool.idle(), 16U) << "the rest is removed";
  EXPECT_EQ(copy->use(), Cgroup::Use::Free);
  EXPECT_EQ(directories(directories(own_).at(0)).size(), pool.idle() + 1);
  pool.close();
  EXPECT_TRUE(directories(own_).empty());
  EXPECT_FALSE(pool.lease());
}

TEST_P(CgroupPoolTest, ALeafIsKeptUntilTheLastProcessOfItsCommandHasEnded) {
  int kept = 0;
  CgroupPool pool(sources(), [&] { ++kept; });
  auto lease = pool.lease();
  ASSERT_TRUE(lease);
  const std::string busy = lease->directory();
  pid_t daemon = 0;
  const Child child = start(lease, "(env -i setsid sh -c 'echo $$; exec sleep 1000' &)", &daemon);
  ASSERT_GT(daemon, 1);
  EXPECT_TRUE(reap(child)->ok());
  lease.reset();
  EXPECT_EQ(kept, 1);
  EXPECT_EQ(pool.kept(), 1U);
  EXPECT_EQ(pool.idle(), 0U);
  EXPECT_NE(pool.lease()->directory(), busy);
  pool.collect();
  EXPECT_EQ(pool.kept(), 1U) << "it lives";

  ASSERT_EQ(::kill(daemon, SIGKILL), 0);
  while (pool.kept() > 0) {
    ASSERT_TRUE(wait_readable(pool.events()));
    pool.collect();
  }
  EXPECT_EQ(pool.idle(), 2U);
}

TEST_P(CgroupPoolTest, CloseLetsTheLivingGoOnElsewhere) {
  CgroupPool pool(sources());
  auto lease = pool.lease();
  ASSERT_TRUE(lease);
  pid_t daemon = 0;
  const Child child = start(lease, "(setsid sh -c 'echo $$; exec sleep 1000' &)", &daemon);
  EXPECT_TRUE(reap(child)->ok());
  lease.reset();
  lease = pool.lease();
  pool.close();
  EXPECT_TRUE(directories(own_).empty());
  EXPECT_EQ(lease->use(), Cgroup::Use::Spoilt);
  lease.reset();
  const auto handle = open_pidfd(daemon);
  ASSERT_TRUE(handle);
  EXPECT_FALSE(wait_ended(handle->get(), std::chrono::milliseconds(0)));
  ASSERT_TRUE(send_signal(handle->get(), SIGKILL));
  EXPECT_TRUE(wait_ended(handle->get(), std::chrono::seconds(20)));
}

TEST_P(CgroupPoolTest, TheEscapeArtistIsKilled) {
  CgroupPool pool(sources());
  const auto lease = pool.lease();
  ASSERT_TRUE(lease);
  pid_t escaped = 0;
  // Another session, no parent of ours, no environment, no descriptor.
  const Child child = start(lease,
                            "(env -i setsid sh -c 'env -i setsid sh -c \"echo \\$\\$; exec <&- >&- 2>&-; "
                            "exec sleep 1000\" & exit' &); exec sleep 1000",
                            &escaped);
  ASSERT_GT(escaped, 1);
  const auto handle = open_pidfd(escaped);
  ASSERT_TRUE(handle);
  ProcessTree tree;
  tree.leader = child.pid;
  tree.leader_start = read_process(child.pid)->start;
  tree.cgroup = lease.get();
  EXPECT_TRUE(kill_tree(tree));
  EXPECT_TRUE(wait_ended(handle->get(), std::chrono::seconds(20)));
  EXPECT_EQ(reap(child)->signal, SIGKILL);
}

TEST_P(CgroupPoolTest, DirectoriesOfTheDeadAreRemovedAndThoseOfTheLivingAreNot) {
  CgroupPool living(sources());
  ASSERT_TRUE(living.lease());
  const std::string home = directories(own_).at(0);
  // As a killed process leaves them, without a lock.
  fs::create_directories(own_ + "/osb-execd-dead/c0");
  fs::create_directories(own_ + "/osb-execd-busy/c1");
  fs::create_directories(own_ + "/somebody-elses/c0");
  const Cgroup busy(own_ + "/osb-execd-busy/c1", CommandCgroups::find(sources())->kind());
  const Child child = start(std::make_shared<Cgroup>(busy), "echo; exec sleep 1000");

  CgroupPool pool(sources());
  ASSERT_TRUE(pool.lease());
  EXPECT_FALSE(fs::exists(own_ + "/osb-execd-dead"));
  EXPECT_TRUE(fs::exists(busy.directory())) << "has members";
  EXPECT_TRUE(fs::exists(own_ + "/somebody-elses/c0")) << "not our name";
  EXPECT_TRUE(fs::exists(home)) << "its pool lives";

  EXPECT_TRUE(busy.kill());
  EXPECT_EQ(reap(child)->signal, SIGKILL);
  CgroupPool third(sources());
  ASSERT_TRUE(third.lease());
  EXPECT_FALSE(fs::exists(own_ + "/osb-execd-busy"));
  EXPECT_TRUE(Cgroup(own_ + "/somebody-elses", busy.kind()).remove());
}

TEST_P(CgroupPoolTest, AFrozenLeafIsNotUsedAgain) {
  CgroupPool pool(sources());
  auto lease = pool.lease();
  ASSERT_TRUE(lease);
  const bool v2 = lease->kind() == Cgroup::Kind::V2;
  if (lease->kind() == Cgroup::Kind::V1Other) GTEST_SKIP() << "this hierarchy cannot freeze";
  const std::string frozen = lease->directory();
  ASSERT_TRUE(write_text(frozen + (v2 ? "/cgroup.freeze" : "/freezer.state"), v2 ? "1" : "FROZEN"));
  lease.reset();
  EXPECT_FALSE(fs::exists(frozen));
  EXPECT_TRUE(pool.lease());
}

INSTANTIATE_TEST_SUITE_P(Hierarchies, CgroupPoolTest, ::testing::Values("v2", "freezer", "pids", "name=systemd"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '=');
                           return name;
                         });

TEST(CgroupPool, WhereNothingCanBeWrittenThereAreNone) {
  testing::TempDir dir;
  std::ofstream(dir / "cgroup") << "0::/\n";
  std::ofstream(dir / "mountinfo") << "1 1 0:1 / /proc/self rw - cgroup2 cgroup2 rw\n";
  for (const CgroupSources& sources :
       {CgroupSources{dir / "cgroup", dir / "mountinfo"}, CgroupSources{dir / "cgroup", dir / "none"}}) {
    CgroupPool pool(sources);
    EXPECT_FALSE(pool.lease());
    EXPECT_FALSE(pool.lease());
    pool.collect();
    EXPECT_EQ(pool.events(), -1);
  }
}

}  // namespace
}  // namespace osb::sys
