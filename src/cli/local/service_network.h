#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "base/error.h"

namespace osb::cli {

// Services on one host must not share addresses or ids. Each takes a number, which stands for a subnet and a range of
// ids. Claims are files in /run/opensandbox-local, one per number, with the service's directory as their text; a claim
// whose directory no longer has that number is void.
constexpr unsigned kServiceNetworks = 9;

std::string subnet_of(unsigned network);           // "10.91.0.0/16"
std::uint32_t first_id_of(unsigned network);       // of its sandboxes
std::uint32_t server_id_of(unsigned network);      // user and group of its server; no account of the host
std::string gateway_address_of(unsigned network);  // "10.91.0.1"

// Finds the number that the service in `directory` shall use: `wanted`, unless another service has claimed it or the
// host uses its addresses on an interface that does not begin with `interface_prefix`; then a free one. `fixed`:
// sandboxes run with `wanted`, so nothing else will do. Code::Exhausted names what is in the way. `record` writes it
// into the service's record, before another service can look.
Result<void> claim_network(const std::filesystem::path& directory, unsigned wanted, bool fixed,
                           const std::string& interface_prefix, const std::function<Result<void>(unsigned)>& record);

// False: the service had not claimed it.
bool release_network(const std::filesystem::path& directory, unsigned network);

// The interface and route of /proc/net/route (`routes`) that overlaps the subnet: "tun0 (10.91.4.0/24)". Empty: none.
std::string route_in_the_way(const std::string& routes, unsigned network, const std::string& interface_prefix);

}  // namespace osb::cli
