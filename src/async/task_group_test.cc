#include "async/task_group.h"

#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

#include "async/timer.h"
#include "support/await.h"

namespace osb {
namespace {

using testing::await;
constexpr auto kForever = std::chrono::nanoseconds::max();

net::awaitable<void> sleeper(int& ended) {
  co_await sleep_for(kForever);
  ++ended;
}

TEST(TaskGroup, CloseStopsAndWaits) {
  net::io_context io(1);
  TaskGroup group(io.get_executor());
  int ended = 0;
  group.spawn("one", sleeper(ended));
  group.spawn("two", sleeper(ended));
  group.spawn("short", []() -> net::awaitable<void> { co_return; }());
  io.poll();
  EXPECT_EQ(group.size(), 2U);
  await(io, group.close());
  EXPECT_EQ(ended, 2);
  EXPECT_EQ(group.size(), 0U);
}

TEST(TaskGroup, TwoMayWaitForTheEnd) {
  net::io_context io(1);
  TaskGroup group(io.get_executor());
  int ended = 0;
  group.spawn("one", sleeper(ended));
  io.poll();
  int closed = 0;
  for (int i = 0; i < 2; ++i) net::co_spawn(io, group.close(), [&](std::exception_ptr e) { closed += !e; });
  io.restart();
  io.run();
  EXPECT_EQ(closed, 2);
}

TEST(TaskGroup, ATaskMayCleanUpAfterItWasStopped) {
  net::io_context io(1);
  TaskGroup group(io.get_executor());
  std::vector<std::string> log;
  group.spawn("tidy", [](std::vector<std::string>& log) -> net::awaitable<void> {
    co_await sleep_for(kForever);
    log.push_back("stopped");
    co_await net::this_coro::reset_cancellation_state();
    co_await sleep_for(std::chrono::milliseconds(1));
    log.push_back("tidied");
  }(log));
  io.poll();
  await(io, group.close());
  EXPECT_EQ(log, (std::vector<std::string>{"stopped", "tidied"}));
}

TEST(TaskGroup, AFailingTaskDoesNotHurtTheOthers) {
  net::io_context io(1);
  TaskGroup group(io.get_executor());
  int ended = 0;
  group.spawn("sleeper", sleeper(ended));
  ::testing::internal::CaptureStderr();
  group.spawn("broken", []() -> net::awaitable<void> {
    throw std::runtime_error("a bug");
    co_return;
  }());
  io.poll();
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("broken"), std::string::npos) << log;
  EXPECT_NE(log.find("a bug"), std::string::npos) << log;
  EXPECT_EQ(group.size(), 1U);
  await(io, group.close());
  EXPECT_EQ(ended, 1);
}

TEST(TaskGroup, AfterCloseNothingStarts) {
  net::io_context io(1);
  TaskGroup group(io.get_executor());
  await(io, group.close());
  int ended = 0;
  group.spawn("late", sleeper(ended));
  EXPECT_EQ(group.size(), 0U);
}

TEST(TaskGroup, TasksThatWereToldToStopAreNoFailures) {
  net::io_context io(1);
  TaskGroup group(io.get_executor());
  group.spawn("twice", []() -> net::awaitable<void> {
    co_await sleep_for(kForever);
    co_await sleep_for(kForever);  // throws operation_aborted
  }());
  io.poll();
  ::testing::internal::CaptureStderr();
  await(io, group.close());
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(TaskGroup, ItMayGoBeforeItsTasks) {
  net::io_context io(1);
  int ended = 0;
  {
    TaskGroup group(io.get_executor());
    group.spawn("sleeper", sleeper(ended));
    io.poll();
  }
  io.restart();
  io.run();
  EXPECT_EQ(ended, 1);
}

}  // namespace
}  // namespace osb
