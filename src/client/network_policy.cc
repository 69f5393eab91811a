#include "client/network_policy.h"

namespace opensandbox {

json::object encode_rule(const NetworkRule& rule) {
  json::object out{{"action", rule.action}};
  if (!rule.target.empty() || rule.ports.empty()) out["target"] = rule.target;
  if (!rule.ports.empty()) out["ports"] = json::array(rule.ports.begin(), rule.ports.end());
  return out;
}

json::object encode_policy(const NetworkPolicy& policy) {
  json::array rules;
  for (const auto& rule : policy.egress) rules.push_back(encode_rule(rule));
  return {{"defaultAction", policy.default_action}, {"egress", std::move(rules)}};
}

NetworkPolicy policy_from(const json::object& object) {
  NetworkPolicy out;
  out.default_action = text_of(object, "defaultAction");
  const auto* list = array_of(object, "egress");
  if (list == nullptr) return out;
  for (const auto& item : *list) {
    const auto* rule = item.if_object();
    if (rule == nullptr) continue;
    NetworkRule& made = out.egress.emplace_back();
    made.action = text_of(*rule, "action");
    made.target = text_of(*rule, "target");
    if (const auto* ports = array_of(*rule, "ports")) {
      for (const auto& port : *ports) {
        if (port.is_int64()) made.ports.push_back(static_cast<int>(port.get_int64()));
      }
    }
  }
  return out;
}

}  // namespace opensandbox
