#include "api/network_policy.h"

#include <algorithm>
#include <array>
#include <span>

namespace osb::api {
namespace {

constexpr std::size_t kMaxPorts = 256;
constexpr std::array<std::string_view, 3> kPolicyKeys = {"defaultAction", "default_action", "egress"};
constexpr std::array<std::string_view, 3> kRuleKeys = {"action", "target", "ports"};

json::object other_members(const json::value& value, std::span<const std::string_view> known) {
  json::object out;
  if (const json::object* object = value.if_object()) {
    for (const auto& member : *object) {
      const std::string_view key(member.key().data(), member.key().size());
      if (std::ranges::find(known, key) == known.end()) out.emplace(key, member.value());
    }
  }
  return out;
}

std::vector<std::uint16_t> read_ports(ObjectReader& r) {
  std::vector<std::uint16_t> out;
  const json::value* value = r.find("ports");
  if (value == nullptr) return out;
  const json::array* list = value->if_array();
  if (list == nullptr || list->size() > kMaxPorts) {
    r.reject("ports", "expected an array of at most 256 ports");
    return out;
  }
  for (const json::value& item : *list) {
    const std::int64_t* port = item.if_int64();
    if (port == nullptr || *port < 1 || *port > 65535) {
      r.reject("ports", "a port is a number from 1 to 65535");
      return out;
    }
    out.push_back(static_cast<std::uint16_t>(*port));
  }
  return out;
}

NetworkRule read_rule(ObjectReader& r, const json::value& value) {
  NetworkRule out;
  const auto action = r.optional_string("action");
  if (!action) r.reject("action", "required");
  out.action = action.value_or("");
  out.ports = read_ports(r);
  const auto target = r.optional_string("target");
  // A blank target is no missing one: an empty variable must not become a rule for every address.
  if (target ? target->empty() : out.ports.empty()) r.reject("target", "required; a rule without one needs ports");
  out.target = target.value_or("");
  out.others = other_members(value, kRuleKeys);
  return out;
}

}  // namespace

std::optional<NetworkPolicy> read_network_policy(ObjectReader& reader, std::string_view name) {
  std::optional<NetworkPolicy> out;
  const json::value* whole = reader.find(name);
  reader.object(name, [&](ObjectReader& r) {
    out.emplace();
    out->default_action = r.optional_string("defaultAction").value_or("");
    const json::value* rules = r.find("egress");
    r.array("egress", [&](ObjectReader& rule) {
      const json::value& item = rules->get_array()[out->egress.size()];
      out->egress.push_back(read_rule(rule, item));
    });
    out->others = other_members(*whole, kPolicyKeys);
  });
  return out;
}

json::object to_json(const NetworkPolicy& policy) {
  json::object out = policy.others;
  if (!policy.default_action.empty()) out["defaultAction"] = policy.default_action;
  json::array rules;
  for (const NetworkRule& rule : policy.egress) {
    json::object item = rule.others;
    item["action"] = rule.action;
    if (!rule.target.empty()) item["target"] = rule.target;
    json::array ports;
    for (const std::uint16_t port : rule.ports) ports.emplace_back(static_cast<std::int64_t>(port));
    if (!ports.empty()) item["ports"] = std::move(ports);
    rules.push_back(std::move(item));
  }
  out["egress"] = std::move(rules);
  return out;
}

}  // namespace osb::api
