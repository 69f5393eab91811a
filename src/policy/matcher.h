#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/ip_address.h"
#include "policy/overlay.h"
#include "policy/policy.h"

namespace osb::policy {

struct Verdict {
  Action action = Action::Deny;
  const Rule* rule = nullptr;  // nullptr: the default action. Lives as long as the matcher.

  bool allowed() const { return action == Action::Allow; }
};

enum class Transport : std::uint8_t { Tcp, Other };

// A policy with an operator's overlays, ready for lookups. A name costs one hash lookup per label, an address one or
// two per prefix length that occurs in the rules; the number of rules does not count. Immutable: a change makes a new
// one.
class Matcher {
 public:
  explicit Matcher(const Policy& policy, const Overlays& overlays = {});
  Matcher(const Matcher&) = delete;  // verdicts point into it
  Matcher& operator=(const Matcher&) = delete;

  // The first rule in the order deny.always, allow.always, user. `name` is as parse_host_name returns it.
  Verdict name(std::string_view name) const;

  // Deny before allow, in any order of the rules; then the default action. Rules with ports match TCP only.
  Verdict address(const IpAddress& address, Transport transport, std::uint16_t port) const;

  // A rule that denies or allows the address on all ports. Such a deny keeps the address closed whatever name resolves
  // to it; such an allow opens it although it is not public.
  const Rule* denies(const IpAddress& address) const { return find(deny_, address, 0); }
  const Rule* allows(const IpAddress& address) const { return find(allow_, address, 0); }

  // Whether a rule of this matcher is one of the overlays.
  bool of_operator(const Rule* rule) const { return rule != nullptr && rule < rules_.data() + overlays_; }

  Action default_action() const { return default_action_; }

 private:
  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  using Names = std::unordered_map<std::string, std::size_t, TextHash, std::equal_to<>>;

  struct Key {
    IpPrefix prefix;
    std::uint16_t port = 0;  // 0: all ports and protocols
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const;
  };
  struct Networks {
    std::unordered_map<Key, std::size_t, KeyHash> rules;
    std::array<std::bitset<129>, 2> lengths;  // that occur: IPv4, IPv6
  };

  void add(std::size_t index);
  void add_network(const Rule& rule, const IpPrefix& prefix, std::size_t index);
  const Rule* find(const Networks& networks, const IpAddress& address, std::uint16_t port) const;

  Action default_action_;
  std::vector<Rule> rules_;
  std::size_t overlays_ = 0;  // rules of the operator, which come first
  Names exact_, below_;       // the lowest index of a rule
  Networks deny_, allow_;
};

}  // namespace osb::policy
