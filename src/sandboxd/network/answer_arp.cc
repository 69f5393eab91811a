#include "sandboxd/network/answer_arp.h"

#include <linux/rtnetlink.h>

#include "kernel/netlink_route.h"

namespace osb::sandboxd {

Result<void> answer_arp(const Slot& slot) {
  auto route = kernel::NetlinkSocket::open(NETLINK_ROUTE);
  if (!route) return Failure(route.error());
  const auto link = kernel::find_link(*route, slot.interface);
  if (!link) return Failure(link.error());
  kernel::NetlinkBatch batch;
  kernel::change_link(batch, link->index, {.arp = true});
  return route->run(batch);
}

}  // namespace osb::sandboxd
