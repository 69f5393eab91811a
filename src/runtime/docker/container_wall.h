#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/ip_address.h"

namespace osb::runtime {

// Which destinations the containers on some bridges of this machine may open connections to: the internet, and what is
// named here. Closed are this machine by all its addresses, metadata services of clouds, private networks, and IPv6.
// The destination that a container has chosen counts, before the engine's tables translate it. As sandboxd's firewall
// does it for native sandboxes; src/sandboxd/network/firewall_rules.cc.
struct ContainerWall {
  std::string table;                      // of nftables; one that exists is made anew
  std::string bridges;                    // the beginning of their names; with a '\0' behind it the whole name
  std::vector<std::string> name_servers;  // "10.0.0.53" or "10.0.0.53:5353", reached at that port wherever they are
  bool host_resolves = false;             // name servers at addresses of this machine, port 53
  bool allow_metadata = false;
  std::vector<IpPrefix> allowed;  // all that lies in them and is no metadata service; also addresses of this machine
  bool allow_private_networks = false;
  // Connections that a container has begun, and all together: the host's table of connections has the rest. 0: no
  // limit. total_connections -1: a share of the table, connections_of_all().
  std::int64_t max_connections = 4096, total_connections = -1;
};

// Needs root. Connections that exist go on. Blocks for about a millisecond.
Result<void> raise_wall(const ContainerWall& wall);
// The same if another program has deleted the table: `nft flush ruleset` does.
Result<void> keep_wall(const ContainerWall& wall);

}  // namespace osb::runtime
