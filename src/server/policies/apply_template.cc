// The policy template of a create request.

#include <boost/json/serialize.hpp>

#include "api/lifecycle_error.h"
#include "policy/narrow.h"
#include "server/policies/policy_library.h"

namespace osb::server {
namespace {

api::NetworkPolicy to_request(const policy::Policy& from) {
  api::NetworkPolicy out{.default_action = std::string(policy::to_string(from.default_action)), .egress = {}};
  out.egress.reserve(from.egress.size());
  for (const policy::Rule& rule : from.egress)
    out.egress.push_back({std::string(policy::to_string(rule.action)), rule.text, rule.ports});
  return out;
}

Failure wrong_policy(const std::string& why) {
  return api::refuse(Code::InvalidRequest, api::reason::kInvalidParameter, "/networkPolicy" + why);
}

Result<policy::Policy> combine(const policy::CompiledTemplate& chosen, const api::NetworkPolicy& user) {
  if (chosen.audit) {
    return api::invalid_parameter("/networkPolicy", "cannot be combined with the policy template " + chosen.name +
                                                        ", which is in audit mode and enforces nothing");
  }
  const auto parsed = policy::parse_policy(api::json::serialize(api::to_json(user)));
  if (!parsed) return wrong_policy(parsed.error().message);
  auto narrowed = policy::narrow(chosen.policy(), *parsed);
  if (!narrowed) return wrong_policy(narrowed.error().message + " (template " + chosen.name + ")");
  return narrowed;
}

}  // namespace

Result<void> apply_template(const PolicyLibrary& library, const std::string& no_network_policy,
                            api::CreateSandbox& wanted) {
  const std::string place = api::join_pointer("/extensions", kPolicyTemplateKey);
  const auto given = wanted.extensions.find(std::string(kPolicyTemplateKey));
  const bool named = given != wanted.extensions.end();
  const std::string name = named ? given->second : library.options().default_template;
  if (!named && name.empty()) return {};
  const auto chosen = library.find(name);
  if (!chosen) return api::invalid_parameter(place, chosen.error().message);
  const std::string whose = named ? "" : "the server's default policy template " + name + " cannot be enforced: ";
  if (!no_network_policy.empty()) return api::invalid_parameter(place, whose + no_network_policy);
  policy::Policy effective = (*chosen)->policy();
  if (wanted.network_policy) {
    auto combined = combine(**chosen, *wanted.network_policy);
    if (!combined) return Failure(combined.error());
    effective = std::move(*combined);
  }
  wanted.network_policy = to_request(effective);
  wanted.extensions[std::string(kPolicyTemplateKey)] = name;
  wanted.extensions[std::string(kPolicyModeKey)] = (*chosen)->audit ? "audit" : "enforce";
  return {};
}

}  // namespace osb::server
