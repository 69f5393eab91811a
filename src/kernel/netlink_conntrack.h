#pragma once

#include <cstdint>

#include "base/error.h"
#include "kernel/netlink.h"

namespace osb::kernel {

// Forgets every tracked connection that an IPv4 address (host byte order) began or answers, translations included.
// Walks the host's whole table inside the kernel. `socket` is a NETLINK_NETFILTER one. Returns how many there were.
Result<unsigned> forget_connections(NetlinkSocket& socket, std::uint32_t address);

}  // namespace osb::kernel
