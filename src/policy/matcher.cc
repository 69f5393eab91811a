#include "policy/matcher.h"

#include <algorithm>
#include <cstring>

namespace osb::policy {

Matcher::Matcher(const Policy& policy, const Overlays& overlays)
    : default_action_(policy.default_action), overlays_(overlays.deny.size() + overlays.allow.size()) {
  rules_.reserve(overlays.deny.size() + overlays.allow.size() + policy.egress.size());
  for (const std::vector<Rule>* list : {&overlays.deny, &overlays.allow, &policy.egress})
    rules_.insert(rules_.end(), list->begin(), list->end());
  for (std::size_t i = 0; i < rules_.size(); ++i) add(i);
}

void Matcher::add(std::size_t index) {
  const Rule& rule = rules_[index];
  if (const auto* name = std::get_if<NameTarget>(&rule.target)) {
    (name->below ? below_ : exact_).try_emplace(name->name, index);
  } else if (const auto* prefix = std::get_if<IpPrefix>(&rule.target)) {
    add_network(rule, *prefix, index);
  } else {
    add_network(rule, IpPrefix(IpAddress{.v6 = false}, 0), index);
    add_network(rule, IpPrefix(IpAddress{.v6 = true}, 0), index);
  }
}

void Matcher::add_network(const Rule& rule, const IpPrefix& prefix, std::size_t index) {
  Networks& networks = rule.action == Action::Deny ? deny_ : allow_;
  networks.lengths[prefix.base.v6 ? 1 : 0].set(prefix.length);
  if (rule.ports.empty()) networks.rules.try_emplace({.prefix = prefix, .port = 0}, index);
  for (const std::uint16_t port : rule.ports) networks.rules.try_emplace({.prefix = prefix, .port = port}, index);
}

Verdict Matcher::name(std::string_view name) const {
  std::size_t first = rules_.size();
  if (const auto found = exact_.find(name); found != exact_.end()) first = found->second;
  for (auto dot = name.find('.'); dot != std::string_view::npos; dot = name.find('.', dot + 1)) {
    if (const auto found = below_.find(name.substr(dot + 1)); found != below_.end())
      first = std::min(first, found->second);
  }
  if (first == rules_.size()) return {.action = default_action_};
  return {.action = rules_[first].action, .rule = &rules_[first]};
}

Verdict Matcher::address(const IpAddress& address, Transport transport, std::uint16_t port) const {
  const std::uint16_t tcp_port = transport == Transport::Tcp ? port : 0;
  for (const Networks* networks : {&deny_, &allow_}) {
    if (const Rule* rule = find(*networks, address, tcp_port)) return {.action = rule->action, .rule = rule};
  }
  return {.action = default_action_};
}

const Rule* Matcher::find(const Networks& networks, const IpAddress& address, std::uint16_t port) const {
  const std::bitset<129>& lengths = networks.lengths[address.v6 ? 1 : 0];
  if (lengths.none()) return nullptr;
  for (unsigned length = 0; length <= address.bits(); ++length) {
    if (!lengths.test(length)) continue;
    const IpPrefix prefix(address, length);
    for (const std::uint16_t wanted : {std::uint16_t{0}, port}) {
      if (const auto found = networks.rules.find({.prefix = prefix, .port = wanted}); found != networks.rules.end())
        return &rules_[found->second];
      if (port == 0) break;
    }
  }
  return nullptr;
}

std::size_t Matcher::KeyHash::operator()(const Key& key) const {
  std::array<char, 21> bytes{};
  std::memcpy(bytes.data(), key.prefix.base.bytes.data(), 16);
  bytes[16] = static_cast<char>(key.prefix.base.v6);
  bytes[17] = static_cast<char>(key.prefix.length);
  std::memcpy(bytes.data() + 18, &key.port, sizeof key.port);
  return std::hash<std::string_view>()({bytes.data(), bytes.size()});
}

}  // namespace osb::policy
