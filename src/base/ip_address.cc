#include "base/ip_address.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cstring>
#include <netinet/in.h>
#include <span>

#include "base/parse_number.h"
#include "base/special_networks.h"

namespace osb {
namespace {

using Bytes = std::array<std::uint8_t, 16>;

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

bool is_public4(std::uint32_t address) {
  return std::ranges::none_of(
      kSpecial4, [&](const Network4& network) { return ((address ^ network.address) >> (32 - network.bits)) == 0; });
}

bool begins_with(const Bytes& address, std::initializer_list<int> bytes) {
  return std::ranges::equal(bytes, std::span(address).first(bytes.size()));
}

std::uint32_t last_four(const Bytes& address) { return ip(address[12], address[13], address[14], address[15]); }

bool is_mapped(const Bytes& address) { return begins_with(address, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}); }

// Global unicast, without the parts of it that are documentation (2001:db8::/32, 3fff::/20), protocols and tunnels
// (2001::/23, Teredo among them) or IPv4 in disguise (2002::/16). A gateway leads 64:ff9b::/96 to IPv4.
bool is_public6(const Bytes& address) {
  if (begins_with(address, {0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0})) return is_public4(last_four(address));
  if ((address[0] & 0xe0) != 0x20) return false;
  if (begins_with(address, {0x20, 0x01}) && (address[2] & 0xfe) == 0) return false;
  return !begins_with(address, {0x20, 0x01, 0x0d, 0xb8}) && !begins_with(address, {0x20, 0x02}) &&
         !(begins_with(address, {0x3f, 0xff}) && (address[2] & 0xf0) == 0);
}

std::optional<Bytes> parse_v6_bytes(std::string_view text) {
  Bytes out{};
  if (text.find('\0') != std::string_view::npos) return std::nullopt;
  if (::inet_pton(AF_INET6, std::string(text).c_str(), out.data()) != 1) return std::nullopt;
  return out;
}

}  // namespace

IpAddress IpAddress::v4(std::uint32_t host_order) {
  IpAddress out;
  for (unsigned i = 0; i < 4; ++i) out.bytes[i] = static_cast<std::uint8_t>(host_order >> (24 - 8 * i));
  return out;
}

IpAddress IpAddress::from_v6(const Bytes& bytes) {
  if (is_mapped(bytes)) return v4(last_four(bytes));
  return {.v6 = true, .bytes = bytes};
}

std::uint32_t IpAddress::to_v4() const { return ip(bytes[0], bytes[1], bytes[2], bytes[3]); }

std::optional<IpAddress> parse_ip_address(std::string_view text) {
  if (text.find('\0') != std::string_view::npos) return std::nullopt;
  in_addr four{};
  if (::inet_pton(AF_INET, std::string(text).c_str(), &four) == 1) return IpAddress::v4(ntohl(four.s_addr));
  if (const auto six = parse_v6_bytes(text)) return IpAddress::from_v6(*six);
  return std::nullopt;
}

std::string format_ip_address(const IpAddress& address) {
  char text[INET6_ADDRSTRLEN] = {};
  ::inet_ntop(address.v6 ? AF_INET6 : AF_INET, address.bytes.data(), text, sizeof text);
  return text;
}

IpPrefix::IpPrefix(const IpAddress& address, unsigned bits) : base(address), length(std::min(bits, address.bits())) {
  for (unsigned i = 0; i < base.bytes.size(); ++i) {
    const unsigned kept = length > 8 * i ? std::min(length - 8 * i, 8U) : 0;
    base.bytes[i] &= static_cast<std::uint8_t>(0xff00U >> kept);
  }
}

bool IpPrefix::contains(const IpAddress& address) const {
  return address.v6 == base.v6 && IpPrefix(address, length).base == base;
}

bool IpPrefix::contains(const IpPrefix& other) const { return other.length >= length && contains(other.base); }

std::optional<IpPrefix> parse_ip_prefix(std::string_view text) {
  const auto slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const std::string_view digits = text.substr(slash + 1);
  const auto length = parse_number<std::uint8_t>(digits);
  if (!length || (digits.size() > 1 && digits.front() == '0')) return std::nullopt;
  if (const auto six = parse_v6_bytes(text.substr(0, slash))) {
    if (*length > 128) return std::nullopt;
    if (is_mapped(*six) && *length >= 96) return IpPrefix(IpAddress::from_v6(*six), *length - 96U);
    return IpPrefix(IpAddress{.v6 = true, .bytes = *six}, *length);
  }
  const auto four = parse_ip_address(text.substr(0, slash));
  if (!four || *length > 32) return std::nullopt;
  return IpPrefix(*four, *length);
}

std::string format_ip_prefix(const IpPrefix& prefix) {
  return format_ip_address(prefix.base) + "/" + std::to_string(prefix.length);
}

std::vector<IpPrefix> without_overlaps(std::vector<IpPrefix> prefixes) {
  std::ranges::sort(prefixes);  // a network comes right before those that lie inside it
  std::vector<IpPrefix> out;
  for (const IpPrefix& prefix : prefixes) {
    if (out.empty() || !out.back().contains(prefix)) out.push_back(prefix);
  }
  return out;
}

std::vector<IpPrefix> networks_not_public() {
  std::vector<IpPrefix> out;
  out.reserve(std::size(kSpecial4));
  for (const Network4& each : kSpecial4) out.emplace_back(IpAddress::v4(each.address), each.bits);
  return out;
}

bool is_public(const IpAddress& address) {
  return address.v6 ? is_public6(address.bytes) : is_public4(address.to_v4());
}

}  // namespace osb
