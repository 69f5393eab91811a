#include "base/log_rate.h"

#include <gtest/gtest.h>

namespace osb {
namespace {

using namespace std::chrono_literals;

TEST(LogRate, OneLinePerIntervalWithTheNumberOfThoseLeftOut) {
  LogRate rate(10s);
  const LogRate::Clock::time_point start{};
  EXPECT_EQ(rate.next(start), 0U);
  EXPECT_FALSE(rate.next(start));
  EXPECT_FALSE(rate.next(start + 9s));
  EXPECT_EQ(rate.next(start + 10s), 2U);
  EXPECT_FALSE(rate.next(start + 19s));
  EXPECT_EQ(rate.next(start + 40s), 1U);
  EXPECT_EQ(rate.next(start + 50s), 0U);
}

}  // namespace
}  // namespace osb
