#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "sandboxd/network/network_config.h"

namespace osb::sandboxd {

// Holds the names that a daemon gives to its nftables table and its interfaces: two daemons with the same ones in one
// network namespace would remove each other's rules. Code::Conflict: another daemon has one of them. Needs a valid
// configuration and the host's /run.
Result<std::vector<UniqueFd>> lock_network(const NetworkConfig& config,
                                           const std::string& directory = "/run/opensandbox-networks");

}  // namespace osb::sandboxd
