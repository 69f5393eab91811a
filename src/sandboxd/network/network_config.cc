#include "sandboxd/network/network_config.h"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <charconv>

#include <fmt/format.h>

#include "base/closed_networks.h"
#include "base/text.h"

namespace osb::sandboxd {
namespace {

constexpr std::size_t kLongestInterfacePrefix = 9;  // 15 characters with an index of up to five digits, and one spare

bool is_plain(std::string_view name) {
  return !name.empty() &&
         std::ranges::all_of(name, [](char c) { return is_letter_or_digit(c) || c == '-' || c == '_'; });
}

template <std::size_t kCount>
constexpr std::array<Subnet, kCount> subnets(const ClosedNetwork (&networks)[kCount]) {
  std::array<Subnet, kCount> out;
  std::ranges::transform(networks, out.begin(), [](const ClosedNetwork& network) {
    return Subnet{.base = network.base, .prefix_length = network.prefix_length};
  });
  return out;
}

constexpr auto kMetadata = subnets(kMetadataNetworks);
constexpr auto kPrivate = subnets(kPrivateNetworks);

bool lies_in(const Subnet& inner, std::span<const Subnet> networks) {
  return std::ranges::any_of(networks, [&](const Subnet& outer) {
    return inner.prefix_length >= outer.prefix_length && outer.contains(inner.base);
  });
}

}  // namespace

std::span<const Subnet> metadata_networks() { return kMetadata; }

std::span<const Subnet> private_networks() { return kPrivate; }

Result<std::uint32_t> parse_ipv4(std::string_view text) {
  in_addr address{};
  if (::inet_pton(AF_INET, std::string(text).c_str(), &address) != 1)
    return fail(Code::InvalidRequest, fmt::format("\"{}\" is no IPv4 address", text));
  return ntohl(address.s_addr);
}

std::string format_ipv4(std::uint32_t address) {
  return fmt::format("{}.{}.{}.{}", address >> 24, address >> 16 & 255, address >> 8 & 255, address & 255);
}

Result<Subnet> parse_subnet(std::string_view text) {
  const std::size_t slash = text.find('/');
  const std::string_view length = slash == std::string_view::npos ? "" : text.substr(slash + 1);
  Subnet subnet;
  const auto [end, error] = std::from_chars(length.data(), length.data() + length.size(), subnet.prefix_length);
  if (error != std::errc() || end != length.data() + length.size() || subnet.prefix_length > 32)
    return fail(Code::InvalidRequest, fmt::format("\"{}\" is no IPv4 network like 10.90.0.0/16", text));
  const auto base = parse_ipv4(text.substr(0, slash));
  if (!base) return Failure(base.error());
  subnet.base = *base & subnet.mask();
  if (subnet.base != *base)
    return fail(Code::InvalidRequest,
                fmt::format("\"{}\" has bits beyond its prefix: {} is meant?", text, format_subnet(subnet)));
  return subnet;
}

std::string format_subnet(const Subnet& subnet) {
  return fmt::format("{}/{}", format_ipv4(subnet.base), subnet.prefix_length);
}

unsigned NetworkConfig::capacity() const {
  // Without the network's own address, the gateway and the broadcast address.
  const std::uint64_t addresses = std::uint64_t{1} << (32 - subnet.prefix_length);
  // The last id, -1, means "no id" to the kernel.
  const std::uint64_t ids = (std::uint64_t{0xffffffff} - first_id) / 65536;
  return static_cast<unsigned>(std::min(addresses > 3 ? addresses - 3 : 0, ids));
}

Result<void> validate(const NetworkConfig& config) {
  if (config.subnet.prefix_length < 8 || config.subnet.prefix_length > 29)
    return fail(Code::InvalidRequest, fmt::format("network.subnet: {} has no sensible size, use a prefix of 8 to 29",
                                                  format_subnet(config.subnet)));
  if (config.first_id < 3 * 65536)
    return fail(
        Code::InvalidRequest,
        "network.first_id: use at least 196608; ids below 65536 belong to the host's own users, and 131072 more "
        "to files in host paths and to services");
  if (config.capacity() == 0) return fail(Code::InvalidRequest, "network.first_id: no id range fits above it");
  if (config.mtu != 0 && (config.mtu < 576 || config.mtu > 65535))
    return fail(Code::InvalidRequest, fmt::format("network.mtu: {} is not between 576 and 65535", config.mtu));
  if (!is_plain(config.interface_prefix) || config.interface_prefix.size() > kLongestInterfacePrefix)
    return fail(Code::InvalidRequest, fmt::format("network.interface_prefix: use up to {} letters, digits, '-' or '_'",
                                                  kLongestInterfacePrefix));
  if (const char last = config.interface_prefix.back(); last >= '0' && last <= '9')
    return fail(Code::InvalidRequest, "network.interface_prefix: must not end with a digit, the slot's number follows");
  if (!is_plain(config.table)) return fail(Code::InvalidRequest, "network.table: use letters, digits, '-' or '_'");
  for (const Subnet& network : config.allowed_metadata) {
    if (!lies_in(network, kMetadata))
      return fail(Code::InvalidRequest, fmt::format("network.allowed_metadata: {} is no link-local or metadata "
                                                    "address, use network.allowed_networks",
                                                    format_subnet(network)));
  }
  for (const Subnet& network : config.allowed_networks) {
    if (lies_in(network, kMetadata))
      return fail(Code::InvalidRequest, fmt::format("network.allowed_networks: {} is a link-local or metadata address; "
                                                    "to open it, name it in network.allowed_metadata",
                                                    format_subnet(network)));
  }
  for (const std::string& server : config.dns) {
    if (const auto address = parse_ipv4(server); !address) return with_context("network.dns", address.error());
  }
  return {};
}

}  // namespace osb::sandboxd
