#include "sandboxd/network/bandwidth.h"

#include <algorithm>

namespace osb::sandboxd {
namespace {

constexpr std::uint64_t kLargestPacket = 128 << 10;  // what the kernel hands over at once, and room for headers
constexpr std::uint64_t kLargestBurst = 256 << 20;

}  // namespace

kernel::SendRate queue_of(std::uint64_t bytes_per_second) {
  const auto bytes_in = [&](std::uint64_t parts_of_second) {
    return static_cast<std::uint32_t>(std::clamp(bytes_per_second / parts_of_second, kLargestPacket, kLargestBurst));
  };
  return {.bytes_per_second = bytes_per_second, .burst = bytes_in(10), .queue = bytes_in(5)};
}

kernel::NftMeter meter_of(std::uint64_t bytes_per_second) {
  return {.of = kernel::NftMeter::Of::BytesPerSecond,
          .most = bytes_per_second,
          .burst = static_cast<std::uint32_t>(kLargestPacket)};
}

}  // namespace osb::sandboxd
