#pragma once

#include <cstdint>
#include <functional>

#include "base/error.h"
#include "kernel/netlink.h"

namespace osb::kernel {

// Forgets every tracked connection that an IPv4 address (host byte order) which `chosen` picks began or answers,
// translations included. `socket` is a NETLINK_NETFILTER one. Returns how many there were. The kernel's table has no
// index by address and is walked as a whole, which takes milliseconds even when it is empty: do it for many addresses
// at once.
Result<unsigned> forget_connections(NetlinkSocket& socket, const std::function<bool(std::uint32_t)>& chosen);

// A tracked IPv4 connection as its first packet was sent, before any translation. Host byte order.
struct TrackedFlow {
  std::uint32_t source = 0;
  std::uint32_t destination = 0;
  std::uint8_t protocol = 0;
  std::uint16_t destination_port = 0;  // TCP and UDP
};
// The same for connections that `chosen` picks.
Result<unsigned> forget_flows(NetlinkSocket& socket, const std::function<bool(const TrackedFlow&)>& chosen);

}  // namespace osb::kernel
