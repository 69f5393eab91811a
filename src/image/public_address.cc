#include "image/public_address.h"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cstdint>
#include <cstring>
#include <netinet/in.h>
#include <optional>
#include <span>
#include <sys/socket.h>

#include "base/unique_fd.h"

namespace osb::image {
namespace {

struct Network4 {
  std::uint32_t address;
  int bits;
};

constexpr std::uint32_t ip(unsigned a, unsigned b, unsigned c, unsigned d) { return a << 24 | b << 16 | c << 8 | d; }

// The IPv4 special-purpose registry of IANA, and one address of a cloud's own service that lies outside of it.
constexpr std::array<Network4, 16> kSpecial4 = {{{ip(0, 0, 0, 0), 8},
                                                 {ip(10, 0, 0, 0), 8},
                                                 {ip(100, 64, 0, 0), 10},
                                                 {ip(127, 0, 0, 0), 8},
                                                 {ip(169, 254, 0, 0), 16},
                                                 {ip(172, 16, 0, 0), 12},
                                                 {ip(192, 0, 0, 0), 24},
                                                 {ip(192, 0, 2, 0), 24},
                                                 {ip(192, 88, 99, 0), 24},
                                                 {ip(192, 168, 0, 0), 16},
                                                 {ip(198, 18, 0, 0), 15},
                                                 {ip(198, 51, 100, 0), 24},
                                                 {ip(203, 0, 113, 0), 24},
                                                 {ip(224, 0, 0, 0), 4},
                                                 {ip(240, 0, 0, 0), 4},
                                                 {ip(168, 63, 129, 16), 32}}};

bool is_in(std::uint32_t address, const Network4& network) {
  return ((address ^ network.address) >> (32 - network.bits)) == 0;
}

bool is_public4(std::uint32_t address) {
  return std::ranges::none_of(kSpecial4, [&](const Network4& network) { return is_in(address, network); });
}

using Bytes6 = std::array<std::uint8_t, 16>;

bool begins_with(const Bytes6& address, std::initializer_list<int> bytes) {
  return std::ranges::equal(bytes, std::span(address).first(bytes.size()));
}

std::uint32_t last_four(const Bytes6& address) { return ip(address[12], address[13], address[14], address[15]); }

// The IPv4 address behind ::ffff:0:0/96 (the kernel connects to it) or 64:ff9b::/96 (a gateway does).
std::optional<std::uint32_t> embedded(const Bytes6& address) {
  static constexpr std::initializer_list<int> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  static constexpr std::initializer_list<int> kTranslated = {0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0};
  if (begins_with(address, kMapped) || begins_with(address, kTranslated)) return last_four(address);
  return std::nullopt;
}

// Global unicast, without the parts of it that are documentation (2001:db8::/32, 3fff::/20), protocols and tunnels
// (2001::/23, Teredo among them) or IPv4 in disguise (2002::/16).
bool is_public6(const Bytes6& address) {
  if (const auto inner = embedded(address)) return is_public4(*inner);
  if ((address[0] & 0xe0) != 0x20) return false;
  if (begins_with(address, {0x20, 0x01}) && (address[2] & 0xfe) == 0) return false;
  return !begins_with(address, {0x20, 0x01, 0x0d, 0xb8}) && !begins_with(address, {0x20, 0x02}) &&
         !(begins_with(address, {0x3f, 0xff}) && (address[2] & 0xf0) == 0);
}

std::optional<std::uint32_t> parse4(const std::string& text) {
  in_addr out{};
  if (::inet_pton(AF_INET, text.c_str(), &out) != 1) return std::nullopt;
  return ntohl(out.s_addr);
}

std::optional<Bytes6> parse6(const std::string& text) {
  Bytes6 out;
  if (::inet_pton(AF_INET6, text.c_str(), out.data()) != 1) return std::nullopt;
  return out;
}

}  // namespace

bool is_public_address(const std::string& address) {
  if (const auto four = parse4(address)) return is_public4(*four);
  const auto six = parse6(address);
  return six && is_public6(*six);
}

bool is_loopback_address(const std::string& address) {
  auto four = parse4(address);
  if (const auto six = parse6(address); six && !four) {
    Bytes6 loopback{};
    loopback.back() = 1;
    if (*six == loopback) return true;
    four = embedded(*six);
  }
  return four && *four >> 24 == 127;
}

// Towards an address of its own the kernel uses that address as the source. Connecting a datagram socket sends nothing.
bool is_own_address(const std::string& address) {
  sockaddr_storage wanted{};
  socklen_t length = sizeof(sockaddr_in);
  if (const auto four = parse4(address)) {
    auto& to = reinterpret_cast<sockaddr_in&>(wanted);
    to.sin_family = AF_INET;
    to.sin_port = htons(443);
    to.sin_addr.s_addr = htonl(*four);
  } else if (const auto six = parse6(address)) {
    if (const auto inner = embedded(*six)) {
      const in_addr network{htonl(*inner)};
      char text[INET_ADDRSTRLEN];
      return ::inet_ntop(AF_INET, &network, text, sizeof text) != nullptr && is_own_address(text);
    }
    auto& to = reinterpret_cast<sockaddr_in6&>(wanted);
    to.sin6_family = AF_INET6;
    to.sin6_port = htons(443);
    std::memcpy(&to.sin6_addr, six->data(), six->size());
    length = sizeof(sockaddr_in6);
  } else {
    return false;
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
