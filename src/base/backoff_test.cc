#include "base/backoff.h"

#include <gtest/gtest.h>

namespace osb {
namespace {

using std::chrono::milliseconds;

TEST(Backoff, DoublesUpToItsLimitAndBeginsAnew) {
  Backoff pause(milliseconds(50), milliseconds(180));
  for (const int expected : {50, 100, 180, 180}) EXPECT_EQ(pause.next(), milliseconds(expected));
  pause.reset();
  EXPECT_EQ(pause.next(), milliseconds(50));
}

}  // namespace
}  // namespace osb
