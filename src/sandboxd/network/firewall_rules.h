#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "kernel/nftables.h"
#include "sandboxd/network/firewall.h"
#include "sandboxd/network/network_config.h"

namespace osb::sandboxd {

// Sets and maps of the table.
inline constexpr const char* kMembers = "members";                     // interface . address of every slot
inline constexpr const char* kAddresses = "addresses";                 // of the same slots
inline constexpr const char* kRefused = "refused";                     // those of them that take no new connections
inline constexpr const char* kSendLimits = "send_limits";              // addresses with a limit of bandwidth
inline constexpr const char* kResolvers = "resolvers";                 // address . protocol . port of name servers
inline constexpr const char* kPublished = "published";                 // ports for the host itself
inline constexpr const char* kPublishedOutside = "published_outside";  // ports for other machines

// With a limit of connections only: the addresses of all slots, and their new TCP connections.
inline constexpr const char* kConnections = "connections";
inline constexpr const char* kNewTcp = "new_tcp_connections";
inline constexpr const char* kConnectionsOfAll = "connections_of_all";  // numbers: see put_limits_of_all()

// Table, chains, sets and rules, in the place of an older table if there is one. Members and ports are elements, added
// by the caller.
void put_table(kernel::NftBatch& batch, const NetworkConfig& config);

void admit_slots(kernel::NftBatch& batch, const NetworkConfig& config, const std::set<unsigned>& slots);
void expel_slot(kernel::NftBatch& batch, const NetworkConfig& config, unsigned slot);

kernel::NftElement address_element(const NetworkConfig& config, unsigned slot);
std::vector<kernel::NftElement> resolver_elements(std::uint32_t address);
kernel::NftElement limited_element(const NetworkConfig& config, unsigned slot, std::uint64_t bytes_per_second);
kernel::NftElement port_element(const NetworkConfig& config, const PublishedPort& port);

}  // namespace osb::sandboxd
