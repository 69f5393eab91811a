#include "async/run_loop.h"

#include <stdexcept>

#include <boost/asio/co_spawn.hpp>
#include <gtest/gtest.h>

#include "async/timer.h"

namespace osb {
namespace {

TEST(RunLoop, EndsWithTheTaskThoughOtherWorkIsLeft) {
  net::io_context loop(1);
  Event event(loop.get_executor());
  bool waited = false;
  net::co_spawn(loop, [&]() -> net::awaitable<void> { waited = co_await event.wait(); }, [](std::exception_ptr) {});
  bool ran = false;
  run_until_done(loop, [&]() -> net::awaitable<void> {
    ran = true;
    co_return;
  }());
  EXPECT_TRUE(ran);
  EXPECT_FALSE(waited);
  event.set();
  loop.run();
  EXPECT_TRUE(waited) << "the loop can be run again";
}

TEST(RunLoop, RunsALoopThatHadNoWorkBefore) {
  net::io_context loop(1);
  loop.poll();
  ASSERT_TRUE(loop.stopped());
  bool ran = false;
  run_until_done(loop, [&]() -> net::awaitable<void> {
    ran = true;
    co_return;
  }());
  EXPECT_TRUE(ran);
}

TEST(RunLoop, ThrowsTheTasksException) {
  net::io_context loop(1);
  const auto broken = []() -> net::awaitable<void> {
    throw std::runtime_error("bug");
    co_return;
  };
  EXPECT_THROW(run_until_done(loop, broken()), std::runtime_error);
}

}  // namespace
}  // namespace osb
