#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "kernel/nftables.h"

// Limits of the connections that sandboxes begin: their entries are in the kernel's table of connections, which all of
// the host share.
namespace osb::kernel {

// New TCP connections, where so many are allowed at a time: closed ones stay in the table for two minutes and do not
// count, so there may be a fortieth of that number per second, with bursts of that number.
NftMeter new_tcp_meter(std::uint64_t connections);

// How many all sandboxes may have together in a table of so many entries: with closed ones they take three quarters of
// it at most.
std::int64_t connections_of_all(std::int64_t table);

// Entries that the kernel's table may have; 0: as many as memory holds. Fails while the kernel tracks no connections.
Result<std::int64_t> connection_table();

// A chain of a batch that drops what begins one connection too many. `begins` matches packets that begin one, and is
// called for each rule. Needs nft_connlimit, nft_limit and nft_numgen.
struct ConnectionLimit {
  std::string chain;
  std::int32_t priority = 0;  // NF_IP_PRI_*, in NF_INET_PRE_ROUTING, behind NF_IP_PRI_CONNTRACK
  std::string set;            // made for it
  std::uint64_t most = 0;
};
void put_connection_limit(NftBatch& batch, const ConnectionLimit& limit, const std::function<NftRule()>& begins);

// The same for each source address, whatever they are: an address has one of 1024 places by a hash, so that two may
// share one, and the limit. Needs nft_hash instead of nft_numgen. Makes a second set, `set` and "_tcp".
void put_connection_limit_per_source(NftBatch& batch, const ConnectionLimit& limit,
                                     const std::function<NftRule()>& begins);

}  // namespace osb::kernel
