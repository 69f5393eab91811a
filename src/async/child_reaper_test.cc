#include "async/child_reaper.h"

#include <optional>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <vector>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <gtest/gtest.h>

#include "async/descriptor.h"
#include "support/await.h"
#include "sys/syscall.h"

namespace osb {
namespace {

using testing::await;

sys::SpawnPlan shell(std::string script) {
  sys::SpawnPlan plan;
  plan.program = "/bin/sh";
  plan.argv = {"sh", "-c", std::move(script)};
  plan.env = {"PATH=/usr/bin:/bin"};
  return plan;
}

void wait_until_ended(const sys::Child& child) {
  pollfd p{child.pidfd.get(), POLLIN, 0};
  int ready;
  do ready = ::poll(&p, 1, -1);
  while (ready < 0 && errno == EINTR);  // other children's SIGCHLD
  ASSERT_EQ(ready, 1);
}

bool has_children() {
  siginfo_t info{};
  return ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

// Watches before the loop runs.
sys::ExitStatus status_of(net::io_context& io, ChildReaper& reaper, pid_t pid) {
  std::optional<sys::ExitStatus> status;
  reaper.watch(pid, [&](sys::ExitStatus s) { status = s; });
  EXPECT_FALSE(status) << "called from within watch()";
  while (!status) io.run_one();
  return *status;
}

TEST(ChildReaper, EachWaiterGetsItsOwnStatus) {
  net::io_context io(1);
  ChildReaper reaper(io.get_executor());
  await(io, [](ChildReaper& reaper) -> net::awaitable<void> {
    const auto a = sys::spawn(shell("exit 3"));
    const auto b = sys::spawn(shell("kill -TERM $$"));
    std::optional<sys::ExitStatus> seen;
    net::steady_timer ended(co_await net::this_coro::executor, net::steady_timer::time_point::max());
    reaper.watch(a->pid, [&](sys::ExitStatus s) {
      seen = s;
      ended.cancel();
    });
    const auto second = co_await reaper.wait(b->pid);
    EXPECT_EQ(second.signal, SIGTERM);
    const auto third = sys::spawn(shell("true"));
    EXPECT_TRUE((co_await reaper.wait(third->pid)).ok());
    // The first one may be the last to end: the kernel decides which of them runs.
    if (!seen) co_await ended.async_wait(net::as_tuple(net::use_awaitable));
    EXPECT_TRUE(seen);
    if (seen) EXPECT_EQ(seen->code, 3);
  }(reaper));
  EXPECT_FALSE(has_children());
}

TEST(ChildReaper, AChildThatEndedBeforeItWasWatchedIsNotLost) {
  net::io_context io(1);
  ChildReaper reaper(io.get_executor());
  const auto child = sys::spawn(shell("exit 5"));
  ASSERT_TRUE(child);
  wait_until_ended(*child);
  EXPECT_EQ(status_of(io, reaper, child->pid).code, 5);
}

TEST(ChildReaper, AChildOlderThanTheReaperIsNotLost) {
  const auto child = sys::spawn(shell("exit 6"));
  ASSERT_TRUE(child);
  wait_until_ended(*child);
  net::io_context io(1);
  ChildReaper reaper(io.get_executor());
  EXPECT_EQ(status_of(io, reaper, child->pid).code, 6);
}

TEST(ChildReaper, OrphansAreFreed) {
  ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  net::io_context io(1);
  ChildReaper reaper(io.get_executor());
  await(io, [](ChildReaper& reaper, net::any_io_executor executor) -> net::awaitable<void> {
    auto pipe = sys::make_pipe();
    auto plan = shell("for i in 1 2 3; do (exec sleep 0.01) & done; exit 9");
    plan.fds = {{1, pipe->write.get()}};
    const auto child = sys::spawn(plan);
    pipe->write.reset();
    EXPECT_EQ((co_await reaper.wait(child->pid)).code, 9);
    auto reader = Descriptor::open(executor, std::move(pipe->read));
    char c;
    EXPECT_EQ(*co_await reader->read_some({&c, 1}), 0U);  // the orphans have ended
  }(reaper, io.get_executor()));
  while (has_children()) io.run_one();
  ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
}

TEST(ChildReaper, AForeignPidIsReportedAsUnknown) {
  net::io_context io(1);
  ChildReaper reaper(io.get_executor());
  EXPECT_EQ(await(io, reaper.wait(1)).code, ChildReaper::kUnknown.code);
}

TEST(ChildReaper, ACancelledWaitForgetsTheChild) {
  net::io_context io(1);
  ChildReaper reaper(io.get_executor());
  const auto lasting = sys::spawn(shell("exec sleep 1000"));
  ASSERT_TRUE(lasting);
  net::cancellation_signal stop;
  std::exception_ptr thrown;
  net::co_spawn(
      io, [&]() -> net::awaitable<void> { co_await reaper.wait(lasting->pid); },
      net::bind_cancellation_slot(stop.slot(), [&](std::exception_ptr e) { thrown = e; }));
  net::post(io, [&] { stop.emit(net::cancellation_type::terminal); });
  while (!thrown) io.run_one();
  ::kill(lasting->pid, SIGKILL);
  while (has_children()) io.run_one();  // freed all the same
}

TEST(ChildReaper, AStormOfChildrenIsWaitedForToTheLast) {
  net::io_context io(1);
  ChildReaper reaper(io.get_executor());
  int ended = 0;
  std::vector<sys::Child> children;
  for (int i = 0; i < 300; ++i) {
    sys::SpawnPlan plan;
    plan.program = "/bin/true";
    plan.argv = {"true"};
    auto child = sys::spawn(plan);
    ASSERT_TRUE(child) << child.error().message;
    reaper.watch(child->pid, [&](sys::ExitStatus s) { ended += s.ok(); });
    children.push_back(std::move(*child));
  }
  for (const auto& child : children) wait_until_ended(child);  // one signal may stand for all of them
  while (ended < 300) io.run_one();
}

TEST(ChildReaper, ChildlessWaitsForTheLastOrphan) {
  ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  net::io_context io(1);
  ChildReaper reaper(io.get_executor());
  auto pipe = sys::make_pipe();
  ASSERT_TRUE(pipe);
  sys::SpawnPlan plan = shell("(read line; exit 0) <&3 & exit 0");
  plan.fds = {{3, pipe->read.get()}};
  ASSERT_TRUE(sys::spawn(plan));
  bool childless = false;
  net::co_spawn(io, reaper.wait_childless(), [&](std::exception_ptr, bool done) { childless = done; });
  // The shell has gone when its grandchild, which waits for us, has become our child.
  for (;;) {
    io.run_one();
    siginfo_t info{};
    ASSERT_EQ(::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT), 0);
    if (info.si_pid == 0) break;
  }
  EXPECT_FALSE(childless);
  pipe->write.reset();
  while (!childless) io.run_one();
  EXPECT_FALSE(has_children());
  ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
}

TEST(ChildReaper, AWaiterMayDestroyTheReaper) {
  net::io_context io(1);
  auto reaper = std::make_unique<ChildReaper>(io.get_executor());
  const auto child = sys::spawn(shell("true"));
  ASSERT_TRUE(child);
  reaper->watch(child->pid, [&](sys::ExitStatus) { reaper.reset(); });
  io.run();  // ends because the reaper is gone
  EXPECT_EQ(reaper, nullptr);
}

}  // namespace
}  // namespace osb
