#include "async/race.h"

#include <stdexcept>
#include <string>

#include <boost/asio/this_coro.hpp>
#include <gtest/gtest.h>

#include "async/timer.h"
#include "support/await.h"

namespace osb {
namespace {

using namespace race;
using osb::testing::await;

net::awaitable<int> number(int value) { co_return value; }
net::awaitable<std::string> text(std::string value) { co_return value; }
net::awaitable<void> nothing() { co_return; }

net::awaitable<int> never(bool& cancelled) {
  cancelled = !co_await sleep_for(std::chrono::hours(1));
  co_return 0;
}

net::awaitable<int> broken() {
  throw std::runtime_error("broken");
  co_return 0;
}

TEST(Race, TheFirstThatEndsDecidesAndTheOtherIsCancelled) {
  bool cancelled = false;
  const auto right = await(never(cancelled) || text("right"));
  ASSERT_EQ(right.index(), 1U);
  EXPECT_EQ(std::get<1>(right), "right");
  EXPECT_TRUE(cancelled);

  cancelled = false;
  const auto left = await(number(7) || never(cancelled));
  ASSERT_EQ(left.index(), 0U);
  EXPECT_EQ(std::get<0>(left), 7);
}

TEST(Race, TasksWithoutAResultHaveAnIndexOnly) {
  bool cancelled = false;
  EXPECT_EQ(await(nothing() || never(cancelled)).index(), 0U);
  EXPECT_EQ(await(never(cancelled) || nothing()).index(), 1U);
}

TEST(Race, AThirdTaskIsAThirdAlternative) {
  bool cancelled = false;
  const auto last = await(never(cancelled) || never(cancelled) || text("last"));
  static_assert(std::is_same_v<decltype(last), const std::variant<int, int, std::string>>);
  ASSERT_EQ(last.index(), 2U);
  EXPECT_EQ(std::get<2>(last), "last");
  const auto middle = await(never(cancelled) || number(5) || never(cancelled));
  ASSERT_EQ(middle.index(), 1U);
  EXPECT_EQ(std::get<1>(middle), 5);
}

TEST(Race, ATaskThatThrowsDoesNotDecide) {
  const auto other = await(broken() || text("sound"));
  ASSERT_EQ(other.index(), 1U);
  EXPECT_EQ(std::get<1>(other), "sound");
  EXPECT_ANY_THROW(await(broken() || broken()));
}

TEST(Race, BothResultsComeTogether) {
  const auto [a, b] = await(number(1) && text("two"));
  EXPECT_EQ(a, 1);
  EXPECT_EQ(b, "two");
  EXPECT_EQ(await(nothing() && number(3)), 3);
  EXPECT_EQ(await(text("four") && nothing()), "four");
}

TEST(Race, AnExceptionOfOneCancelsTheOther) {
  bool cancelled = false;
  EXPECT_THROW(await(broken() && never(cancelled)), std::runtime_error);
  EXPECT_TRUE(cancelled);
}

}  // namespace
}  // namespace osb
