#include "kernel/process_exit.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "sys/pidfd.h"
#include "sys/syscall.h"

namespace osb::kernel {
namespace {

using namespace std::chrono_literals;

sys::Child start(const std::string& script) {
  sys::SpawnPlan plan;
  plan.program = "/bin/sh";
  plan.argv = {"sh", "-c", script};
  auto child = sys::spawn(plan);
  EXPECT_TRUE(child) << child.error().message;
  return std::move(*child);
}

TEST(ProcessIdentity, FindsTheSameProcessAgain) {
  const sys::Child child = start("exec sleep 60");
  const auto identity = identify(child.pid);
  ASSERT_TRUE(identity) << identity.error().message;
  EXPECT_EQ(identity->pid, child.pid);
  EXPECT_EQ(identity->boot_id.size(), 36u);
  EXPECT_GT(identity->start_ticks, 0u);
  EXPECT_EQ(identify(child.pid).value(), *identity);
  auto found = open_same(*identity);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_TRUE(sys::send_signal(found->get(), SIGKILL));
  ASSERT_TRUE(sys::wait_ended(child.pidfd.get(), 20s));
  EXPECT_EQ(open_same(*identity).error().code, Code::NotFound) << "a zombie";
  EXPECT_TRUE(sys::reap(child));
  EXPECT_EQ(open_same(*identity).error().code, Code::NotFound) << "no process";
  EXPECT_EQ(identify(child.pid).error().code, Code::NotFound);
}

TEST(ProcessIdentity, OtherProcessesAreNotTakenForIt) {
  const auto self = identify(::getpid());
  ASSERT_TRUE(self);
  EXPECT_TRUE(open_same(*self));
  ProcessIdentity earlier = *self;
  earlier.start_ticks -= 1;
  EXPECT_EQ(open_same(earlier).error().code, Code::NotFound);
  ProcessIdentity rebooted = *self;
  rebooted.boot_id = "00000000-0000-0000-0000-000000000000";
  EXPECT_EQ(open_same(rebooted).error().code, Code::NotFound);
  for (const pid_t pid : {0, -1}) {
    ProcessIdentity wrong = *self;
    wrong.pid = pid;
    EXPECT_EQ(open_same(wrong).error().code, Code::NotFound) << pid;
  }
}

TEST(ProcessIdentity, ANameCannotForgeFields) {
  char old[16];
  ASSERT_EQ(::prctl(PR_GET_NAME, old), 0);
  const auto before = identify(::getpid());
  ASSERT_EQ(::prctl(PR_SET_NAME, "x) Z 1 2 3 (a) "), 0);
  const auto after = identify(::getpid());
  ::prctl(PR_SET_NAME, old);
  EXPECT_EQ(before.value(), after.value());
}

// The process is a grandchild that another process reaps.
TEST(ProcessExit, OfAProcessThatIsNotOurChild) {
  struct {
    const char* how;
    int code, signal;
  } rows[] = {{"exit 7", 7, 0}, {"kill -KILL $$", 0, SIGKILL}};
  for (const auto& row : rows) {
    auto go = sys::make_pipe();
    auto told = sys::make_pipe();
    const std::string script = std::string("sh -c 'read line; ") + row.how + "' <&3 & echo $! >&4; wait";
    sys::SpawnPlan plan;
    plan.program = "/bin/sh";
    plan.argv = {"sh", "-c", script};
    plan.fds = {{3, go->read.get()}, {4, told->write.get()}};
    const auto parent = sys::spawn(plan);
    ASSERT_TRUE(parent);
    told->write.reset();
    char text[32] = {};
    ASSERT_GT(::read(told->read.get(), text, sizeof text - 1), 0);
    const auto watched = sys::open_pidfd(std::stoi(text));
    ASSERT_TRUE(watched);
    EXPECT_EQ(exit_of(watched->get()), std::nullopt) << "still running";
    ASSERT_EQ(::write(go->write.get(), "\n", 1), 1);
    ASSERT_TRUE(sys::wait_ended(parent->pidfd.get(), 20s));  // it has reaped the other
    ASSERT_TRUE(sys::reap(*parent));
    const auto status = exit_of(watched->get());
    // Kernels before 6.15 do not know.
    if (!status) GTEST_SKIP() << "needs PIDFD_INFO_EXIT (Linux 6.15)";
    EXPECT_EQ(status->signal, row.signal);
    EXPECT_EQ(status->code, row.code);
  }
}

TEST(ProcessExit, IsKnownOnceTheProcessIsReaped) {
  const sys::Child child = start("exit 9");
  ASSERT_TRUE(sys::wait_ended(child.pidfd.get(), 20s));
  EXPECT_EQ(exit_of(child.pidfd.get()), std::nullopt) << "a zombie";
  std::thread reaper([&] { EXPECT_TRUE(sys::reap(child)); });
  const auto status = exit_of(child.pidfd.get(), 20s);
  reaper.join();
  if (!status) GTEST_SKIP() << "needs PIDFD_INFO_EXIT (Linux 6.15)";
  EXPECT_EQ(status->code, 9);
}

TEST(ProcessExit, OfSomethingElse) { EXPECT_EQ(exit_of(-1), std::nullopt); }

}  // namespace
}  // namespace osb::kernel
