#include "sandboxd/network/bandwidth.h"

#include <gtest/gtest.h>

namespace osb::sandboxd {
namespace {

TEST(Bandwidth, BurstsGrowWithTheRateAndHoldAtLeastOnePacket) {
  struct {
    std::uint64_t rate;
    std::uint32_t burst;
    std::uint32_t queue;
  } rows[] = {{kLeastBandwidth, 128 << 10, 128 << 10},
              {1'000'000, 128 << 10, 200'000},
              {10'000'000, 1'000'000, 2'000'000},
              {kMostBandwidth, 256 << 20, 256 << 20}};
  for (const auto& row : rows) {
    const kernel::SendRate queue = queue_of(row.rate);
    EXPECT_EQ(queue.bytes_per_second, row.rate);
    EXPECT_EQ(queue.burst, row.burst) << row.rate;
    EXPECT_EQ(queue.queue, row.queue) << row.rate;
    const kernel::NftMeter meter = meter_of(row.rate);
    EXPECT_EQ(meter.most, row.rate);
    EXPECT_EQ(meter.burst, 128U << 10) << row.rate;
  }
}

}  // namespace
}  // namespace osb::sandboxd
