#include "base/clock.h"

#include <gtest/gtest.h>

namespace osb {
namespace {

using std::chrono::seconds;

TEST(Clock, FakeStandsStillUntilAdvanced) {
  FakeClock clock;
  const auto wall = clock.now();
  const auto steady = clock.steady_now();
  EXPECT_EQ(clock.now(), wall);
  clock.advance(seconds(5));
  EXPECT_EQ(clock.now() - wall, seconds(5));
  EXPECT_EQ(clock.steady_now() - steady, seconds(5));
}

TEST(Clock, SettingTheWallClockBackLeavesIntervalsAlone) {
  FakeClock clock;
  const auto steady = clock.steady_now();
  clock.set(FakeClock::SystemTime(seconds(1)));
  EXPECT_EQ(clock.now().time_since_epoch(), seconds(1));
  EXPECT_EQ(clock.steady_now(), steady);
}

TEST(Clock, SystemClockFollowsTheRealOne) {
  const auto before = std::chrono::system_clock::now();
  const auto seen = system_clock().now();
  EXPECT_LE(before, seen);
  EXPECT_LE(seen, std::chrono::system_clock::now());
}

}  // namespace
}  // namespace osb
