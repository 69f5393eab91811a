#include "intercept/flow.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <netinet/in.h>
#include <sys/socket.h>

#include "sys/syscall.h"

namespace osb::intercept {
namespace {

// Of <linux/netfilter_ipv4.h> and <linux/netfilter_ipv6/ip6_tables.h>, which do not go with <netinet/in.h>.
constexpr int kOriginalDestination = 80;

struct End {
  IpAddress address;
  std::uint16_t port = 0;
  bool operator==(const End&) const = default;
};

union Place {
  sockaddr any;
  sockaddr_in v4;
  sockaddr_in6 v6;
};

Result<End> end_of(const Place& place) {
  if (place.any.sa_family == AF_INET) {
    return End{IpAddress::v4(ntohl(place.v4.sin_addr.s_addr)), ntohs(place.v4.sin_port)};
  }
  if (place.any.sa_family != AF_INET6) return fail(Code::InvalidRequest, "not a connection over IP");
  std::array<std::uint8_t, 16> bytes;
  std::memcpy(bytes.data(), &place.v6.sin6_addr, bytes.size());
  return End{IpAddress::from_v6(bytes), ntohs(place.v6.sin6_port)};
}

}  // namespace

Result<Flow> flow_of(int socket) {
  Place place{};
  socklen_t size = sizeof place;
  if (::getpeername(socket, &place.any, &size) < 0) return sys::from_errno("getpeername", errno);
  const auto source = end_of(place);
  if (!source) return Failure(source.error());
  size = sizeof place;
  if (::getsockname(socket, &place.any, &size) < 0) return sys::from_errno("getsockname", errno);
  const auto own = end_of(place);
  if (!own) return Failure(own.error());
  // An IPv4 connection to a socket of both families is tracked as IPv4.
  const bool v6 = source->address.v6;
  size = v6 ? sizeof place.v6 : sizeof place.v4;
  if (::getsockopt(socket, v6 ? SOL_IPV6 : SOL_IP, kOriginalDestination, &place, &size) < 0) {
    return fail(Code::Forbidden, "the connection was not redirected here");
  }
  const auto original = end_of(place);
  if (!original) return Failure(original.error());
  if (*original == *own) return fail(Code::Forbidden, "the connection was made to our own port");
  return Flow{source->address, original->address, original->port};
}

}  // namespace osb::intercept
