#include "sys/process_tree.h"

#include <filesystem>
#include <fstream>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/temp_dir.h"
#include "sys/cgroup.h"
#include "sys/pidfd.h"
#include "sys/spawn.h"
#include "sys/syscall.h"

namespace osb::sys {
namespace {

constexpr const char* kMarker = "OSB_TREE_TEST=this-one";

class ProcessTreeTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(become_subreaper()); }
  void TearDown() override {
    if (tree_.leader != 0) EXPECT_TRUE(kill_tree(tree_));
    while (::waitpid(-1, nullptr, 0) > 0) {  // everything that was ours has ended
    }
    ::prctl(PR_SET_CHILD_SUBREAPER, 0);
  }

  // Runs a shell script and returns when it has written `lines` lines.
  void start(const std::string& script, int lines = 1) {
    auto pipe = make_pipe();
    ASSERT_TRUE(pipe);
    SpawnPlan plan;
    plan.program = "/bin/sh";
    plan.argv = {"sh", "-c", script};
    plan.env = {"PATH=/usr/bin:/bin", kMarker};
    plan.fds = {{1, pipe->write.get()}};
    auto child = spawn(plan);
    ASSERT_TRUE(child) << child.error().message;
    child_ = std::move(*child);
    tree_.leader = child_.pid;
    tree_.marker = kMarker;
    tree_.leader_start = read_process(child_.pid)->start;
    pipe->write.reset();
    for (char c; lines > 0;) {
      ASSERT_EQ(::read(pipe->read.get(), &c, 1), 1);
      lines -= c == '\n';
    }
    output_ = std::move(pipe->read);
  }

  ProcessTree tree_;
  Child child_;
  UniqueFd output_;  // kept open: no process gets SIGPIPE
};

TEST_F(ProcessTreeTest, FindsChildrenThatLeftGroupAndSession) {
  start("setsid sh -c 'echo; exec sleep 1000' & setsid sh -c 'echo; exec sleep 1000' & wait", 2);
  EXPECT_GE(collect_tree(tree_).size(), 3U);
  EXPECT_TRUE(kill_tree(tree_));
  EXPECT_TRUE(collect_tree(tree_).empty());
  EXPECT_EQ(reap(child_)->signal, SIGKILL);
}

TEST_F(ProcessTreeTest, FindsDaemonsByTheirMarkerAfterTheLeaderIsGone) {
  start("(setsid sh -c 'sleep 1000 & echo; exec sleep 1000' >&1 &) ; exit 0");
  ASSERT_TRUE(reap(child_)->ok());  // its pid is free now
  const auto found = collect_tree(tree_);
  EXPECT_EQ(found.size(), 2U) << "the daemon, which is our child now, and its child";
  EXPECT_TRUE(kill_tree(tree_));
  EXPECT_TRUE(collect_tree(tree_).empty());
}

TEST_F(ProcessTreeTest, OthersOrphansAreLeftAlone) {
  start("(setsid sh -c 'echo; exec sleep 1000' >&1 &) ; exit 0");
  ASSERT_TRUE(reap(child_)->ok());
  ProcessTree other = tree_;
  other.marker = "OSB_TREE_TEST=another-one";
  EXPECT_TRUE(collect_tree(other).empty());
  EXPECT_TRUE(kill_tree(other));
  EXPECT_EQ(collect_tree(tree_).size(), 1U);
}

TEST_F(ProcessTreeTest, AReusedLeaderPidIsNotTheCommand) {
  start("echo; exec sleep 1000");
  ProcessTree stale = tree_;
  stale.leader_start += 1;
  stale.marker.clear();
  EXPECT_TRUE(collect_tree(stale).empty());
  EXPECT_TRUE(kill_tree(stale));
  EXPECT_EQ(collect_tree(tree_).size(), 1U);
}

TEST_F(ProcessTreeTest, IgnoringSigtermDoesNotHelp) {
  start("trap '' TERM; (trap '' TERM HUP INT; echo; while :; do sleep 1000; done) & echo; while :; do sleep 1000; done",
        2);
  EXPECT_GE(signal_tree(tree_, SIGTERM), 2);
  EXPECT_GE(collect_tree(tree_).size(), 2U);
  EXPECT_TRUE(kill_tree(tree_));
  EXPECT_EQ(reap(child_)->signal, SIGKILL);
}

TEST_F(ProcessTreeTest, StoppedProcessesAreKilledToo) {
  start("echo; kill -STOP $$");
  EXPECT_TRUE(kill_tree(tree_));
  EXPECT_EQ(reap(child_)->signal, SIGKILL);
}

TEST_F(ProcessTreeTest, SignalGroupReachesTheWholeGroup) {
  start("sleep 1000 & echo; wait");
  ASSERT_TRUE(signal_group(child_.pid, SIGKILL));
  EXPECT_EQ(reap(child_)->signal, SIGKILL);
  EXPECT_TRUE(kill_tree(tree_));
  while (::waitpid(-1, nullptr, 0) > 0) {
  }
  EXPECT_EQ(signal_group(child_.pid, SIGKILL).error().code, Code::NotFound);
  EXPECT_FALSE(signal_group(1, SIGKILL));
  EXPECT_FALSE(signal_group(0, SIGKILL));
}

TEST_F(ProcessTreeTest, AnEmptyTreeIsKilledAtOnce) {
  EXPECT_TRUE(collect_tree(ProcessTree{}).empty());
  EXPECT_TRUE(kill_tree(ProcessTree{}));
  ProcessTree self;
  self.leader = ::getpid();
  EXPECT_TRUE(collect_tree(self).empty()) << "never ourselves, nor processes of other commands";
}

// Runs `body` in a forked copy of the test that cannot have more than `processes` processes.
template <typename F>
pid_t fork_limited(rlim_t processes, F body) {
  int fds[2];
  EXPECT_EQ(::pipe2(fds, O_CLOEXEC), 0);
  const pid_t pid = ::fork();
  if (pid == 0) {
    const uid_t nobody_else = 61234;  // the limit counts processes of a user, and never root's
    const rlimit limit{processes, processes};
    ::setpgid(0, 0);
    ::syscall(SYS_setresgid, nobody_else, nobody_else, nobody_else);
    ::syscall(SYS_setresuid, nobody_else, nobody_else, nobody_else);
    ::setrlimit(RLIMIT_NPROC, &limit);
    if (::getuid() != nobody_else || ::write(fds[1], "x", 1) != 1) ::_exit(1);
    body();
    ::_exit(0);
  }
  ::close(fds[1]);
  char c;
  EXPECT_EQ(::read(fds[0], &c, 1), 1);
  ::close(fds[0]);
  return pid;
}

TEST_F(ProcessTreeTest, AForkBombLoses) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to run the bomb as a user with a limit";
  tree_.leader = fork_limited(120, [] {
    for (;;) {
      if (::fork() == 0) ::setsid();  // each in a session of its own: no group reaches two of them
    }
  });
  while (collect_tree(tree_).size() < 50) ::sched_yield();
  EXPECT_TRUE(kill_tree(tree_, std::chrono::seconds(30)));
  EXPECT_TRUE(collect_tree(tree_).empty());
}

TEST_F(ProcessTreeTest, AProcessThatForksAndExitsForeverLosesToItsCgroup) {
  const auto cgroups = CommandCgroups::find();
  if (!cgroups || ::geteuid() != 0) GTEST_SKIP() << "needs a writable cgroup";
  const auto leaf = cgroups->create_leaf("osb-test-hopper-" + std::to_string(::getpid()));
  if (!leaf) GTEST_SKIP() << leaf.error().message;
  auto join = open_at(AT_FDCWD, leaf->join_file(), O_WRONLY);
  ASSERT_TRUE(join) << join.error().message;
  auto pipe = make_pipe();
  ASSERT_TRUE(pipe);
  tree_.leader = ::fork();
  if (tree_.leader == 0) {
    if (::write(join->get(), "0", 1) != 1) ::_exit(1);
    ::setsid();
    if (::write(pipe->write.get(), "x", 1) != 1) ::_exit(1);
    for (;;) {
      if (::fork() > 0) ::_exit(0);
      ::setsid();
    }
  }
  pipe->write.reset();
  char c;
  ASSERT_EQ(::read(pipe->read.get(), &c, 1), 1);
  tree_.cgroup = &*leaf;
  EXPECT_TRUE(kill_tree(tree_));
  EXPECT_EQ(::read(pipe->read.get(), &c, 1), 0) << "no copy is left that holds the pipe";
  tree_.leader = 0;
  while (::waitpid(-1, nullptr, 0) > 0) {
  }
  EXPECT_TRUE(leaf->remove());
}

TEST_F(ProcessTreeTest, AProcessWhoseFirstThreadHasEndedIsAlive) {
  auto pipe = make_pipe();
  ASSERT_TRUE(pipe);
  tree_.leader = ::fork();
  if (tree_.leader == 0) {
    ::setpgid(0, 0);
    std::thread([&] {
      while (read_process(::getpid())->alive && ::syscall(SYS_sched_yield) == 0) {
        std::ifstream status("/proc/self/stat");
        std::string text((std::istreambuf_iterator<char>(status)), {});
        if (text.find(") Z ") != std::string::npos) break;
      }
      (void)!::write(pipe->write.get(), "x", 1);
      for (;;) ::pause();
    }).detach();
    ::syscall(SYS_exit, 0);  // this thread only
  }
  char c;
  ASSERT_EQ(::read(pipe->read.get(), &c, 1), 1);
  EXPECT_EQ(collect_tree(tree_).size(), 1U);
  EXPECT_TRUE(kill_tree(tree_));
  EXPECT_TRUE(collect_tree(tree_).empty());
}

TEST(ReadProcess, NamesMayHoldAnything) {
  testing::TempDir proc;
  std::filesystem::create_directories(proc / "7");
  std::ofstream(proc / "7/stat") << "7 (a) S 1 (b) c) S 3 4 5 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 987654 0 0\n";
  const auto process = read_process(7, proc.path());
  ASSERT_TRUE(process);
  EXPECT_EQ(process->parent, 3);
  EXPECT_EQ(process->group, 4);
  EXPECT_EQ(process->session, 5);
  EXPECT_EQ(process->start, 987654U);
  EXPECT_TRUE(process->alive);
  for (const char* broken : {"", "7", "7 (x", "7 (x)", "7 (x) ", "7 (x) S 1 2"}) {
    std::ofstream(proc / "7/stat", std::ios::trunc) << broken;
    EXPECT_FALSE(read_process(7, proc.path())) << broken;
  }
  EXPECT_FALSE(read_process(8, proc.path()));
}

TEST(Pidfd, AnEndedProcessIsNotFound) {
  SpawnPlan plan;
  plan.program = "/bin/true";
  plan.argv = {"true"};
  const auto child = spawn(plan);
  ASSERT_TRUE(child);
  EXPECT_TRUE(wait_ended(child->pidfd.get(), std::chrono::seconds(60)));
  ASSERT_TRUE(reap(*child));
  EXPECT_EQ(send_signal(child->pidfd.get(), 0).error().code, Code::NotFound);
  EXPECT_EQ(open_pidfd(child->pid).error().code, Code::NotFound);
  EXPECT_FALSE(wait_ended(open_pidfd(::getpid())->get(), std::chrono::milliseconds(1)));
}

}  // namespace
}  // namespace osb::sys
