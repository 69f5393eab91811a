#pragma once

#include "base/error.h"
#include "kernel/netlink.h"
#include "sandboxd/network/network_config.h"

namespace osb::sandboxd {

// Network settings of the host for sandboxes, besides the firewall. `route` is a NETLINK_ROUTE socket; everything
// concerns the network namespace of the calling thread, which is the socket's.

// - The gateway's address on lo, with host scope: the source of the host's own packets to sandboxes, and never
//   chosen for anything else. There is no interface of its own for it because every sandbox has a link to
//   itself.
// - A route of the subnet to lo, so that packets to addresses without a sandbox do not leave by the default route. The
//   firewall refuses them there. An unreachable route would not do: the kernel keeps its error from a connect() that
//   has sent its first packet before the sandbox went, and such a connect hangs.
// - IPv4 forwarding, which is logged when it was off.
// Repeating it changes nothing. Fails when the host routes the subnet, or a part of it, elsewhere.
Result<void> prepare_host(const NetworkConfig& config, kernel::NetlinkSocket& route);

// Takes the address and the route away. Forwarding stays: others may have come to rely on it.
Result<void> restore_host(const NetworkConfig& config, kernel::NetlinkSocket& route);

// Of the default route's interface; 1500 without one.
Result<unsigned> uplink_mtu(kernel::NetlinkSocket& route);

}  // namespace osb::sandboxd
