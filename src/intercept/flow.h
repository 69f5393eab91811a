#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "base/ip_address.h"

namespace osb::intercept {

// A connection that a sandbox has opened and that was redirected to us.
struct Flow {
  IpAddress sandbox;      // its source
  IpAddress destination;  // before it was redirected
  std::uint16_t port = 0;

  std::string to_string() const { return osb::format_ip_address(destination) + ":" + std::to_string(port); }
};

// The ends of an accepted connection, as the kernel's connection tracking knows them (SO_ORIGINAL_DST). An error: the
// connection was not redirected but made to our own port. nftables' `redirect` was chosen over TPROXY because the
// process that accepts then needs no privilege and no routes of its own.
Result<Flow> flow_of(int socket);

}  // namespace osb::intercept
