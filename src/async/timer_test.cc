#include "async/timer.h"

#include <functional>
#include <vector>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <gtest/gtest.h>

#include "support/await.h"

namespace osb {
namespace {

using namespace std::chrono_literals;
using testing::await;
using Clock = std::chrono::steady_clock;

constexpr auto kForever = std::chrono::nanoseconds::max();

// Starts `task` and returns after it has suspended; `stop` cancels it, `done` tells its end.
struct Started {
  net::cancellation_signal stop;
  bool done = false;
  std::exception_ptr thrown;
};
void start(net::io_context& io, Started& started, net::awaitable<void> task) {
  net::co_spawn(io, std::move(task), net::bind_cancellation_slot(started.stop.slot(), [&](std::exception_ptr e) {
                  started.done = true;
                  started.thrown = e;
                }));
  io.restart();
  io.poll();
}

net::awaitable<Result<int>> answer(int value) { co_return value; }
net::awaitable<Result<int>> sleeping(bool& unwound) {
  struct Mark {
    bool& unwound;
    ~Mark() { unwound = true; }
  } mark{unwound};
  const bool slept = co_await sleep_for(kForever);
  if (slept) co_return 1;
  co_return fail(Code::Cancelled, "sleep");
}

TEST(SleepFor, SleepsAtLeastThatLong) {
  const auto before = Clock::now();
  EXPECT_TRUE(await(sleep_for(5ms)));
  EXPECT_GE(Clock::now() - before, 5ms);
}

TEST(SleepFor, SaysWhenItWasCancelled) {
  net::io_context io(1);
  Started started;
  bool slept = true;
  start(io, started, [](bool& slept) -> net::awaitable<void> { slept = co_await sleep_for(kForever); }(slept));
  EXPECT_FALSE(started.done);
  started.stop.emit(net::cancellation_type::terminal);
  io.restart();
  io.run();
  EXPECT_TRUE(started.done);
  EXPECT_FALSE(slept);
}

TEST(WithTimeout, AnAnswerInTimeIsTheResult) {
  const auto result = await(with_timeout(answer(7), kForever));
  ASSERT_TRUE(result);
  EXPECT_EQ(*result, 7);
}

TEST(WithTimeout, ALateTaskIsEndedAndReportedAsTimeout) {
  bool unwound = false;
  const auto result = await(with_timeout(sleeping(unwound), 1ms));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::Timeout);
  EXPECT_TRUE(unwound);
}

TEST(WithTimeout, ErrorsAndExceptionsPassThrough) {
  const auto failing = []() -> net::awaitable<Result<int>> { co_return fail(Code::NotFound, "no"); };
  EXPECT_EQ(await(with_timeout(failing(), kForever)).error().code, Code::NotFound);
  const auto throwing = []() -> net::awaitable<Result<int>> {
    throw std::runtime_error("bug");
    co_return 1;
  };
  EXPECT_THROW((void)await(with_timeout(throwing(), kForever)), std::runtime_error);
}

TEST(WithTimeout, ATaskThatThrowsBecauseItWasStoppedIsATimeout) {
  const auto twice = []() -> net::awaitable<Result<int>> {
    co_await sleep_for(kForever);
    co_await sleep_for(kForever);  // throws: cancelled
    co_return 1;
  };
  EXPECT_EQ(await(with_timeout(twice(), 1ms)).error().code, Code::Timeout);
}

TEST(WithTimeout, NestsAndTheInnerOneCounts) {
  bool unwound = false;
  const auto result = await(with_timeout(with_timeout(sleeping(unwound), 1ms), kForever));
  EXPECT_EQ(result.error().code, Code::Timeout);
}

TEST(WithTimeout, CancellingTheCallerEndsTheTask) {
  net::io_context io(1);
  Started started;
  bool unwound = false;
  Code code = Code::Internal;
  start(io, started, [](bool& unwound, Code& code) -> net::awaitable<void> {
    const auto result = co_await with_timeout(sleeping(unwound), kForever);
    if (!result) code = result.error().code;
  }(unwound, code));
  EXPECT_FALSE(started.done);
  started.stop.emit(net::cancellation_type::terminal);
  io.restart();
  io.run();
  EXPECT_TRUE(started.done);
  EXPECT_TRUE(unwound);
  EXPECT_EQ(code, Code::Cancelled);
}

TEST(WithTimeout, TheCallerGoesOnAfterATimeout) {
  bool unwound = false;
  EXPECT_TRUE(await([](bool& unwound) -> net::awaitable<bool> {
    const auto result = co_await with_timeout(sleeping(unwound), 1ms);
    EXPECT_FALSE(result);
    co_return co_await sleep_for(1ns);  // the caller itself was not cancelled
  }(unwound)));
}

class NotifierTest : public ::testing::Test {
 protected:
  net::awaitable<void> waiter(int id) {
    const bool notified = co_await notifier_->wait();
    log_.push_back(notified ? id : -id);
  }
  void run() {
    io_.restart();
    io_.poll();
  }

  net::io_context io_{1};
  std::optional<Notifier> notifier_{io_.get_executor()};
  std::vector<int> log_;
  Started a_, b_;
};

TEST_F(NotifierTest, WakesAllOrTheOldest) {
  start(io_, a_, waiter(1));
  start(io_, b_, waiter(2));
  run();
  EXPECT_TRUE(log_.empty());
  notifier_->notify_one();
  run();
  EXPECT_EQ(log_, std::vector<int>{1});
  notifier_->notify_all();
  run();
  EXPECT_EQ(log_, (std::vector<int>{1, 2}));
}

TEST_F(NotifierTest, ANotificationIsNotSharedWithLaterWaiters) {
  notifier_->notify_all();
  start(io_, a_, waiter(1));
  run();
  EXPECT_FALSE(a_.done);
  notifier_->notify_all();
  notifier_->notify_one();  // no waiter is left to take it
  run();
  EXPECT_EQ(log_, std::vector<int>{1});
}

TEST_F(NotifierTest, ACancelledWaiterDoesNotTakeANotification) {
  start(io_, a_, waiter(1));
  start(io_, b_, waiter(2));
  a_.stop.emit(net::cancellation_type::terminal);
  run();
  EXPECT_EQ(log_, std::vector<int>{-1});
  notifier_->notify_one();
  run();
  EXPECT_EQ(log_, (std::vector<int>{-1, 2}));
}

TEST_F(NotifierTest, WaitersOutliveTheNotifier) {
  start(io_, a_, waiter(1));
  notifier_.reset();
  run();
  EXPECT_EQ(log_, std::vector<int>{-1});
}

TEST_F(NotifierTest, WaitUntilLooksAtTheConditionEachTime) {
  int value = 0;
  bool reached = false;
  start(io_, a_, [](Notifier& n, int& value, bool& reached) -> net::awaitable<void> {
    reached = co_await n.wait_until([&] { return value == 2; });
  }(*notifier_, value, reached));
  value = 1;
  notifier_->notify_all();
  run();
  EXPECT_FALSE(a_.done);
  value = 2;
  notifier_->notify_all();
  run();
  EXPECT_TRUE(reached);
}

TEST(Event, StaysSetUntilCleared) {
  net::io_context io(1);
  Event event(io.get_executor());
  Started early, late;
  bool first = false, second = false;
  const auto waiting = [](Event& event, bool& woken) -> net::awaitable<void> { woken = co_await event.wait(); };
  start(io, early, waiting(event, first));
  EXPECT_FALSE(early.done);
  event.set();
  start(io, late, waiting(event, second));
  EXPECT_TRUE(first);
  EXPECT_TRUE(second);
  event.clear();
  EXPECT_FALSE(event.is_set());
}

}  // namespace
}  // namespace osb
