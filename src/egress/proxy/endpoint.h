#pragma once

#include <cstdint>
#include <netinet/in.h>
#include <string>
#include <string_view>
#include <sys/socket.h>

#include "base/error.h"
#include "base/ip_address.h"

namespace osb::egress {

// An address and a port, and the same as the kernel takes it.
struct Endpoint {
  IpAddress address = {};
  std::uint16_t port = 53;

  bool operator==(const Endpoint&) const = default;
};

// "10.0.0.2", "10.0.0.2:53", "[fd00::1]:53", "fd00::1".
Result<Endpoint> parse_endpoint(std::string_view text, std::uint16_t default_port = 53);
std::string format_endpoint(const Endpoint& endpoint);

struct SocketAddress {
  union {
    sockaddr any;
    sockaddr_in v4;
    sockaddr_in6 v6;
  };
  socklen_t size = sizeof(sockaddr_in6);

  SocketAddress() : v6{} {}
  explicit SocketAddress(const Endpoint& endpoint);
  IpAddress ip() const;
};

}  // namespace osb::egress
