#pragma once

#include <cstdint>

#include "kernel/netlink_rate.h"
#include "kernel/nftables.h"

namespace osb::sandboxd {

// Bytes per second that a sandbox receives and sends at most, all its connections together. 0: no limit.
struct Bandwidth {
  std::uint64_t receive = 0;
  std::uint64_t send = 0;

  bool limited() const { return receive != 0 || send != 0; }
  bool operator==(const Bandwidth&) const = default;
};

inline constexpr std::uint64_t kLeastBandwidth = 1024;
inline constexpr std::uint64_t kMostBandwidth = 10'000'000'000;  // the kernel's arithmetic takes no more

// The queue in front of an interface: bursts of a tenth of a second, and a fifth may wait.
kernel::SendRate queue_of(std::uint64_t bytes_per_second);
// The limit behind that queue, in the firewall, for packets that went round it. The kernel lets bursts of a second pass
// there, so it drops nothing that has passed the queue.
kernel::NftMeter meter_of(std::uint64_t bytes_per_second);

}  // namespace osb::sandboxd
