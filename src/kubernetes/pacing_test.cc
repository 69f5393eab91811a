#include "kubernetes/pacing.h"

#include <gtest/gtest.h>

namespace osb::kubernetes {
namespace {

using namespace std::chrono_literals;

TEST(JitteredBackoffTest, PausesGrowAndLoseAtMostAHalf) {
  for (const std::uint32_t seed : {1u, 2u, 3u, 4u}) {
    JitteredBackoff pauses(100ms, 800ms, seed);
    for (const auto whole : {100ms, 200ms, 400ms, 800ms, 800ms}) {
      const auto pause = pauses.next();
      EXPECT_LE(pause, whole);
      EXPECT_GE(pause, whole / 2);
    }
    pauses.reset();
    EXPECT_LE(pauses.next(), 100ms);
  }
}

TEST(TokenBucketTest, ABurstPassesAndTheRestWaitsItsTurn) {
  FakeClock clock;
  TokenBucket bucket(10, 3, clock);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(bucket.take(), 0ns);
  EXPECT_NEAR(static_cast<double>(bucket.take().count()), 100e6, 1e3);
  EXPECT_NEAR(static_cast<double>(bucket.take().count()), 200e6, 1e3);
  clock.advance(1s);
  EXPECT_EQ(bucket.take(), 0ns) << "time gives turns back";
}

TEST(TokenBucketTest, ZeroMeansNoLimitAndABurstOfZeroIsOneSecond) {
  FakeClock clock;
  TokenBucket unlimited(0, 0, clock);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(unlimited.take(), 0ns);
  TokenBucket slow(0.5, 0, clock);
  EXPECT_EQ(slow.take(), 0ns);
  EXPECT_NEAR(static_cast<double>(slow.take().count()), 2e9, 1e3);
}

}  // namespace
}  // namespace osb::kubernetes
