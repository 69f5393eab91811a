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

}  // namespace osb::kernel
