#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace osb {

// An IPv4 or IPv6 address in network byte order. ::ffff:a.b.c.d never appears: parsing gives the IPv4 address, because
// the kernel connects to that one.
struct IpAddress {
  bool v6 = false;
  std::array<std::uint8_t, 16> bytes{};  // IPv4: the first four, the others are zero

  static IpAddress v4(std::uint32_t host_order);
  static IpAddress from_v6(const std::array<std::uint8_t, 16>& bytes);  // IPv4 for ::ffff:a.b.c.d
  std::uint32_t to_v4() const;                                          // host byte order; only of an IPv4 address

  unsigned bits() const { return v6 ? 128 : 32; }
  auto operator<=>(const IpAddress&) const = default;
};

// Digits only: no zone, no brackets, no leading zeros, no blanks.
std::optional<IpAddress> parse_ip_address(std::string_view text);
std::string format_ip_address(const IpAddress& address);

// A network: the address with all bits behind `length` zero. 0.0.0.0/0 and ::/0 contain no address of the other family.
struct IpPrefix {
  IpAddress base;
  unsigned length = 0;

  IpPrefix() = default;
  IpPrefix(const IpAddress& address, unsigned length);  // clears the bits behind `length`
  bool contains(const IpAddress& address) const;
  bool contains(const IpPrefix& other) const;
  auto operator<=>(const IpPrefix&) const = default;
};

// "10.0.0.0/8". Bits behind the length are cleared. An address without "/" is not taken.
std::optional<IpPrefix> parse_ip_prefix(std::string_view text);
std::string format_ip_prefix(const IpPrefix& prefix);

// Sorted, without duplicates and without networks that lie inside another one: interval sets of nftables refuse those.
std::vector<IpPrefix> without_overlaps(std::vector<IpPrefix> prefixes);

// An address of the internet: not loopback, private (RFC 1918, ULA), link-local, shared (100.64.0.0/10), multicast or
// reserved, and none that a cloud gives to its own machines only. 64:ff9b::a.b.c.d is judged by a.b.c.d.
bool is_public(const IpAddress& address);

}  // namespace osb
