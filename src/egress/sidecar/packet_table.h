#pragma once

#include <cstdint>
#include <vector>

#include "api/egress_link.h"
#include "egress/proxy/endpoint.h"
#include "egress/proxy/upstream_socket.h"
#include "kernel/nftables.h"
#include "policy/address_sets.h"

namespace osb::egress {

inline constexpr const char* kTable = "opensandbox";
// Of loopback: where the sandbox's connections come that are intercepted.
inline constexpr std::uint16_t kSidecarInterceptPort = 15380;
inline constexpr const char* kLearned = "dyn_allow_v4";  // addresses that names resolved to

// The packet filter of the network namespace that the sidecar shares with its sandbox, as one table. Only IPv4 leaves;
// IPv6 works on the loopback interface.
struct PacketTable {
  policy::AddressSets sets = {};
  std::vector<Endpoint> upstreams = {};
  SocketIdentity own = {};                    // of our sockets to upstream servers; the mark also of those of the API
  std::vector<std::uint16_t> own_ports = {};  // TCP ports that our sockets may reach anywhere
  std::vector<IpPrefix> closed = {};          // unless the policy allows them
  std::uint16_t api_port = 18080;
  bool intercept = false;  // TCP to ports 80 and 443 comes to kSidecarInterceptPort, and no QUIC leaves
  bool block_doh = false;
  std::vector<IpPrefix> doh_blocklist = {};
  std::vector<api::egress::OpenAddress> learned = {};
};

// Replaces the table; there is no moment without one.
void put_table(kernel::NftBatch& batch, const PacketTable& table);
// Nothing leaves but answers on connections that exist.
void put_closed_table(kernel::NftBatch& batch, const PacketTable& table);
// `known`: some may be in the set already, with a shorter time.
void learn_addresses(kernel::NftBatch& batch, const std::vector<api::egress::OpenAddress>& addresses, bool known);

}  // namespace osb::egress
