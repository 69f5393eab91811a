#include "runtime/docker/metadata_wall.h"

#include <linux/netfilter.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netlink.h>
#include <net/if.h>

#include "base/metadata_networks.h"
#include "kernel/nftables.h"

namespace osb::runtime {

Result<void> set_metadata_wall(const std::string& bridge, bool closed) {
  if (::if_nametoindex(bridge.c_str()) == 0) {
    return fail(Code::NotFound, "the engine's bridge " + bridge + " is not in the server's network namespace");
  }
  auto socket = kernel::NetlinkSocket::open(NETLINK_NETFILTER);
  if (!socket) return Failure(socket.error());
  kernel::NftBatch batch("opensandbox_" + bridge);
  batch.add_table();
  batch.delete_table();
  if (!closed) return batch.commit(*socket);
  batch.add_table();
  const std::string chain = "destinations";
  // After the kernel's table of connections, before destinations are translated.
  batch.add_chain({.name = chain, .hook = NF_INET_PRE_ROUTING, .priority = NF_IP_PRI_CONNTRACK + 1});
  for (const MetadataNetwork& network : kMetadataNetworks) {
    const auto match = [&] {
      return std::move(
          kernel::NftRule().input_interface(bridge).ipv4().destination(network.base, network.prefix_length));
    };
    batch.add_rule(chain, std::move(match().tcp().reset()));
    batch.add_rule(chain, std::move(match().prohibited()));
  }
  batch.add_rule(chain, std::move(kernel::NftRule().input_interface(bridge).ipv6().drop()));
  return batch.commit(*socket);
}

}  // namespace osb::runtime
