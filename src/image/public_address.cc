#include "image/public_address.h"

#include <cstdint>
#include <cstring>
#include <netinet/in.h>
#include <optional>
#include <sys/socket.h>

#include "base/ip_address.h"
#include "base/unique_fd.h"

namespace osb::image {
namespace {

constexpr std::uint32_t kLoopbackNetwork = 127;

// The IPv4 address behind 64:ff9b::/96, to which a gateway leads.
std::optional<IpAddress> translated(const IpAddress& address) {
  static const IpPrefix kTranslated = *parse_ip_prefix("64:ff9b::/96");
  if (!kTranslated.contains(address)) return std::nullopt;
  const auto& b = address.bytes;
  return IpAddress::v4(std::uint32_t{b[12]} << 24 | std::uint32_t{b[13]} << 16 | std::uint32_t{b[14]} << 8 | b[15]);
}

// The address that connections go to in the end.
std::optional<IpAddress> destination(const std::string& text) {
  auto address = parse_ip_address(text);
  if (!address) return std::nullopt;
  if (const auto inner = translated(*address)) return inner;
  return address;
}

}  // namespace

bool is_public_address(const std::string& address) {
  const auto parsed = parse_ip_address(address);
  return parsed && is_public(*parsed);
}

bool is_loopback_address(const std::string& address) {
  const auto to = destination(address);
  if (!to) return false;
  return to->v6 ? to == parse_ip_address("::1") : to->bytes[0] == kLoopbackNetwork;
}

// Towards an address of its own the kernel uses that address as the source. Connecting a datagram socket sends nothing.
bool is_own_address(const std::string& address) {
  const auto to = destination(address);
  if (!to) return false;
  sockaddr_storage wanted{};
  socklen_t length = sizeof(sockaddr_in);
  if (!to->v6) {
    auto& four = reinterpret_cast<sockaddr_in&>(wanted);
    four.sin_family = AF_INET;
    four.sin_port = htons(443);
    four.sin_addr.s_addr = htonl(to->to_v4());
  } else {
    auto& six = reinterpret_cast<sockaddr_in6&>(wanted);
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(443);
    std::memcpy(&six.sin6_addr, to->bytes.data(), to->bytes.size());
    length = sizeof(sockaddr_in6);
  }
  const UniqueFd socket(::socket(wanted.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage own{};
  socklen_t own_length = sizeof own;
  if (socket.get() < 0 || ::connect(socket.get(), reinterpret_cast<sockaddr*>(&wanted), length) < 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &own_length) < 0) {
    return false;  // nothing leads there
  }
  if (wanted.ss_family == AF_INET) {
    return reinterpret_cast<sockaddr_in&>(own).sin_addr.s_addr ==
           reinterpret_cast<sockaddr_in&>(wanted).sin_addr.s_addr;
  }
  return std::memcmp(&reinterpret_cast<sockaddr_in6&>(own).sin6_addr,
                     &reinterpret_cast<sockaddr_in6&>(wanted).sin6_addr, sizeof(in6_addr)) == 0;
}

}  // namespace osb::image
