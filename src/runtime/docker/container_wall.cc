#include "runtime/docker/container_wall.h"

#include <algorithm>
#include <cerrno>
#include <linux/netfilter.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <utility>

#include "base/closed_networks.h"
#include "base/log.h"
#include "base/parse_number.h"
#include "kernel/connection_limit.h"

namespace osb::runtime {
namespace {

using kernel::NftRule;

constexpr const char* kChain = "destinations";
constexpr std::uint16_t kNames = 53;
// After the kernel's table of connections, before destinations are translated.
constexpr int kPriority = NF_IP_PRI_CONNTRACK + 1;

template <typename Match>
void refuse(kernel::NftBatch& batch, const Match& match) {
  batch.add_rule(kChain, std::move(match().tcp().reset()));
  batch.add_rule(kChain, std::move(match().prohibited()));
}

NftRule to(const ClosedNetwork& network) {
  return std::move(NftRule().ipv4().destination(network.base, network.prefix_length));
}

// Questions for names, at this port of what `match` finds.
template <typename Match>
void accept_questions(kernel::NftBatch& batch, std::uint16_t port, const Match& match) {
  batch.add_rule(kChain, std::move(match().udp().destination_port(port).accept()));
  batch.add_rule(kChain, std::move(match().tcp().destination_port(port).accept()));
}

void accept_name_server(kernel::NftBatch& batch, std::string_view server) {
  const std::size_t colon = server.find(':');
  const auto address = parse_ip_address(server.substr(0, colon));
  if (!address || address->v6) return;  // containers have no IPv6
  const auto port = colon == server.npos ? kNames : parse_number<std::uint16_t>(server.substr(colon + 1)).value_or(0);
  accept_questions(batch, port, [&] { return std::move(NftRule().ipv4().destination(address->to_v4(), 32)); });
}

NftRule to_this_machine(std::uint8_t type = RTN_LOCAL) { return std::move(NftRule().ipv4().destination_type(type)); }

void put_destinations(kernel::NftBatch& batch, const ContainerWall& wall) {
  batch.add_chain({.name = kChain, .hook = NF_INET_PRE_ROUTING, .priority = kPriority});
  batch.add_rule(kChain, std::move(NftRule().input_interface(wall.bridges, false).accept()));
  batch.add_rule(kChain, std::move(NftRule().ipv6().drop()));
  batch.add_rule(kChain, std::move(NftRule().connection_answered().accept()));
  // Errors about a connection. Other packets are related by helpers, which believe what a sandbox writes.
  batch.add_rule(kChain, std::move(NftRule().ipv4().icmp().connection_related().accept()));
  for (const std::string& server : wall.name_servers) accept_name_server(batch, server);
  if (wall.host_resolves) accept_questions(batch, kNames, [] { return to_this_machine(); });
  for (const ClosedNetwork& network : kMetadataNetworks) {
    if (!wall.allow_metadata) refuse(batch, [&] { return to(network); });
  }
  for (const IpPrefix& network : wall.allowed) {
    batch.add_rule(kChain, std::move(NftRule().ipv4().destination(network.base.to_v4(), network.length).accept()));
  }
  refuse(batch, [] { return to_this_machine(); });
  batch.add_rule(kChain, std::move(to_this_machine(RTN_BROADCAST).drop()));
  batch.add_rule(kChain, std::move(to_this_machine(RTN_MULTICAST).drop()));
  if (wall.allow_private_networks) return;
  for (const ClosedNetwork& network : kMetadataNetworks) {
    batch.add_rule(kChain, std::move(to(network).accept()));  // allowed, see above; one lies in a private network
  }
  for (const ClosedNetwork& network : kPrivateNetworks) refuse(batch, [&] { return to(network); });
}

std::uint64_t total_of(const ContainerWall& wall) {
  if (wall.total_connections >= 0) return static_cast<std::uint64_t>(wall.total_connections);
  const std::int64_t table = kernel::connection_table().value_or(0);
  return table > 0 ? static_cast<std::uint64_t>(kernel::connections_of_all(table)) : 0;
}

void put_limits(kernel::NftBatch& batch, const ContainerWall& wall) {
  const auto begins = [&] {
    return std::move(NftRule().input_interface(wall.bridges).connection_unconfirmed().ipv4());
  };
  if (const auto most = static_cast<std::uint64_t>(wall.max_connections); most > 0) {
    put_connection_limit_per_source(
        batch, {.chain = "connections", .priority = kPriority + 1, .set = "places", .most = most}, begins);
  }
  if (const std::uint64_t most = total_of(wall); most > 0) {
    put_connection_limit(batch, {.chain = "connections_of_all", .priority = kPriority + 2, .set = "all", .most = most},
                         begins);
  }
}

Result<void> raise(const ContainerWall& wall, bool with_limits) {
  auto socket = kernel::NetlinkSocket::open(NETLINK_NETFILTER);
  if (!socket) return Failure(socket.error());
  kernel::NftBatch batch(wall.table);
  batch.add_table();  // so that there is one to delete
  batch.delete_table();
  batch.add_table();
  put_destinations(batch, wall);
  if (with_limits) put_limits(batch, wall);
  return batch.commit(*socket);
}

}  // namespace

Result<void> raise_wall(const ContainerWall& wall) {
  auto raised = raise(wall, true);
  if (raised) return raised;
  if (const int error = raised.error().sys_errno; error != ENOENT && error != EOPNOTSUPP) return raised;
  const std::string reason = raised.error().message;
  raised = raise(wall, false);
  if (raised) {
    log_warn(
        "sandboxes have no limit of connections: the kernel lacks nft_connlimit, nft_limit, nft_hash or "
        "nft_numgen",
        {{"error", reason}});
  }
  return raised;
}

Result<void> keep_wall(const ContainerWall& wall) {
  auto socket = kernel::NetlinkSocket::open(NETLINK_NETFILTER);
  if (!socket) return Failure(socket.error());
  const auto chains = kernel::list_chains(*socket);
  if (!chains) return Failure(chains.error());
  if (std::ranges::find(*chains, wall.table, &kernel::NftChainInfo::table) != chains->end()) return {};
  log_warn("another program deleted the table around sandboxes; it is made again", {{"table", wall.table}});
  return raise_wall(wall);
}

}  // namespace osb::runtime
