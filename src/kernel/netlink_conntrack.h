#pragma once

#include <cstdint>
#include <span>

#include "base/error.h"
#include "kernel/netlink.h"

namespace osb::kernel {

// Forgets every tracked connection that one of these IPv4 addresses (host byte order) began or answers, translations
// included. `socket` is a NETLINK_NETFILTER one. Returns how many there were. The kernel's table has no index by
// address and is walked as a whole, which takes milliseconds even when it is empty: do it for many addresses at once.
Result<unsigned> forget_connections(NetlinkSocket& socket, std::span<const std::uint32_t> addresses);

}  // namespace osb::kernel
