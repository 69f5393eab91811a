#include "server/service/alarm.h"

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <gtest/gtest.h>

#include "async/timer.h"
#include "support/await.h"

namespace osb::server {
namespace {

using namespace net::experimental::awaitable_operators;

Timestamp soon(std::chrono::milliseconds after) {
  return std::chrono::ceil<std::chrono::microseconds>(std::chrono::system_clock::now()) + after;
}

TEST(Alarm, FiresAtItsTimeAndNotBefore) {
  net::io_context io(1);
  auto alarm = Alarm::open(io.get_executor());
  ASSERT_TRUE(alarm) << alarm.error().message;
  const Timestamp when = soon(std::chrono::milliseconds(20));
  EXPECT_TRUE(osb::testing::await(io, alarm->wait_until(when)));
  EXPECT_GE(std::chrono::system_clock::now(), when);
  EXPECT_TRUE(osb::testing::await(io, alarm->wait_until(Timestamp{}))) << "a moment long past";
}

TEST(Alarm, IsSetAnewAfterItWasInterrupted) {
  net::io_context io(1);
  auto alarm = Alarm::open(io.get_executor());
  ASSERT_TRUE(alarm);
  Event moved(io.get_executor());
  moved.set();
  const auto race = [&](std::optional<Timestamp> when) -> net::awaitable<std::size_t> {
    co_return (co_await (alarm->wait_until(when) || moved.wait())).index();
  };
  EXPECT_EQ(osb::testing::await(io, race(std::nullopt)), 1u);
  EXPECT_EQ(osb::testing::await(io, race(soon(std::chrono::hours(1)))), 1u);
  EXPECT_TRUE(osb::testing::await(io, alarm->wait_until(soon(std::chrono::milliseconds(5)))));
}

}  // namespace
}  // namespace osb::server
