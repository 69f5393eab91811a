#include "base/deadline.h"

#include <gtest/gtest.h>

namespace osb {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

TEST(Deadline, TheRestIsRoundedUpAndNeverNegative) {
  FakeClock clock;
  const Deadline deadline(milliseconds(10), clock);
  EXPECT_EQ(deadline.left(), milliseconds(10));
  clock.advance(microseconds(9'500));
  EXPECT_EQ(deadline.left(), milliseconds(1));
  EXPECT_FALSE(deadline.passed());
  clock.advance(microseconds(500));
  EXPECT_TRUE(deadline.passed());
  clock.advance(milliseconds(5));
  EXPECT_EQ(deadline.left(), milliseconds(0));
}

}  // namespace
}  // namespace osb
