#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/ip_address.h"
#include "policy/overlay.h"
#include "policy/policy.h"

namespace osb::policy {

// Addresses from first to last, both included and of one family.
struct AddressRange {
  IpAddress first;
  IpAddress last;

  auto operator<=>(const AddressRange&) const = default;
};

// A TCP port of a range of addresses.
struct PortRange {
  std::uint16_t port = 0;
  AddressRange addresses;

  auto operator<=>(const PortRange&) const = default;
};

// The addresses of all rules with one action. The lists are sorted; ranges that overlap or touch are joined, so
// interval sets of nftables take them as they are. Ports of addresses that are in v4 or v6 anyway are left out.
struct AddressSet {
  std::vector<AddressRange> v4 = {};  // all ports and protocols
  std::vector<AddressRange> v6 = {};
  std::vector<PortRange> tcp_v4 = {};  // ranges are disjoint for each port
  std::vector<PortRange> tcp_v6 = {};

  bool empty() const { return v4.empty() && v6.empty() && tcp_v4.empty() && tcp_v6.empty(); }
  std::size_t size() const { return v4.size() + v6.size() + tcp_v4.size() + tcp_v6.size(); }
  bool operator==(const AddressSet&) const = default;
};

// The part of a policy that is about addresses, for a packet filter. The filter asks in this order: deny, addresses
// that names resolved to, allow, default_action. Rules for names are not in it.
struct AddressSets {
  AddressSet deny = {};
  AddressSet allow = {};
  Action default_action = Action::Deny;

  bool operator==(const AddressSets&) const = default;
};

// The operator's overlays take part like rules of the user: deny wins over allow, wherever they come from.
AddressSets address_sets(const Policy& policy, const Overlays& overlays = {});

// The fewest networks that together are the range.
std::vector<IpPrefix> prefixes(const AddressRange& range);

}  // namespace osb::policy
