#include "policy/address_sets.h"

#include <algorithm>
#include <map>
#include <optional>

namespace osb::policy {
namespace {

std::size_t size_of(const IpAddress& address) { return address.bits() / 8; }

IpAddress last_of(const IpPrefix& prefix) {
  IpAddress out = prefix.base;
  for (unsigned bit = prefix.length; bit < out.bits(); ++bit)
    out.bytes[bit / 8] |= static_cast<std::uint8_t>(0x80U >> (bit % 8));
  return out;
}

// Nothing behind the last address of all.
std::optional<IpAddress> next(IpAddress address) {
  for (std::size_t i = size_of(address); i-- > 0;) {
    if (++address.bytes[i] != 0) return address;
  }
  return std::nullopt;
}

void join(std::vector<AddressRange>& ranges) {
  std::ranges::sort(ranges);
  std::vector<AddressRange> out;
  for (const AddressRange& range : ranges) {
    if (!out.empty()) {
      const auto behind = next(out.back().last);
      if (!behind || range.first <= *behind) {
        out.back().last = std::max(out.back().last, range.last);
        continue;
      }
    }
    out.push_back(range);
  }
  ranges = std::move(out);
}

bool covered(const std::vector<AddressRange>& ranges, const AddressRange& range) {
  const auto behind = std::ranges::upper_bound(ranges, range.first, {}, &AddressRange::first);
  return behind != ranges.begin() && range.last <= std::prev(behind)->last;
}

// Rules of one action and one family.
class Collector {
 public:
  void add(const Rule& rule, const IpPrefix& prefix) {
    const AddressRange range{.first = prefix.base, .last = last_of(prefix)};
    if (rule.ports.empty()) all_.push_back(range);
    for (const std::uint16_t port : rule.ports) ports_[port].push_back(range);
  }

  void finish(std::vector<AddressRange>& all, std::vector<PortRange>& tcp) {
    join(all_);
    for (auto& [port, ranges] : ports_) {
      join(ranges);
      for (const AddressRange& range : ranges) {
        if (!covered(all_, range)) tcp.push_back({.port = port, .addresses = range});
      }
    }
    all = std::move(all_);
  }

 private:
  std::vector<AddressRange> all_;
  std::map<std::uint16_t, std::vector<AddressRange>> ports_;
};

struct Families {
  Collector v4, v6;

  void add(const Rule& rule) {
    if (const auto* prefix = std::get_if<IpPrefix>(&rule.target)) {
      (prefix->base.v6 ? v6 : v4).add(rule, *prefix);
    } else if (std::holds_alternative<AnyAddress>(rule.target)) {
      v4.add(rule, IpPrefix(IpAddress{.v6 = false}, 0));
      v6.add(rule, IpPrefix(IpAddress{.v6 = true}, 0));
    }
  }
  AddressSet finish() {
    AddressSet out;
    v4.finish(out.v4, out.tcp_v4);
    v6.finish(out.v6, out.tcp_v6);
    return out;
  }
};

}  // namespace

AddressSets address_sets(const Policy& policy, const Overlays& overlays) {
  Families deny, allow;
  for (const std::vector<Rule>* rules : {&overlays.deny, &overlays.allow, &policy.egress}) {
    for (const Rule& rule : *rules) (rule.action == Action::Deny ? deny : allow).add(rule);
  }
  return {.deny = deny.finish(), .allow = allow.finish(), .default_action = policy.default_action};
}

std::vector<IpPrefix> prefixes(const AddressRange& range) {
  std::vector<IpPrefix> out;
  IpAddress first = range.first;
  for (;;) {
    // The largest network that begins here and does not reach beyond the end.
    unsigned length = first.bits();
    while (length > 0) {
      const IpPrefix wider(first, length - 1);
      if (wider.base != first || last_of(wider) > range.last) break;
      --length;
    }
    out.emplace_back(first, length);
    const auto behind = next(last_of(out.back()));
    if (!behind || *behind > range.last) return out;
    first = *behind;
  }
}

}  // namespace osb::policy
