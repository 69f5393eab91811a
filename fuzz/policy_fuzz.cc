// Network policies, changes of them and overlays. A policy that was taken survives encoding, and every verdict has a
// rule of the policy or its default behind it.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include <boost/json/serialize.hpp>

#include "policy/changes.h"
#include "policy/matcher.h"

namespace {

using namespace osb::policy;

void check(const Policy& policy) {
  const auto again = parse_policy(osb::api::json::serialize(to_json(policy)));
  if (!again || *again != policy) std::abort();
  const Matcher matcher(policy);
  for (const Rule& rule : policy.egress) {
    if (const auto* name = std::get_if<NameTarget>(&rule.target)) {
      if (matcher.name(name->below ? "a." + name->name : name->name).rule == nullptr) std::abort();
    } else if (const auto* prefix = std::get_if<osb::IpPrefix>(&rule.target)) {
      const std::uint16_t port = rule.ports.empty() ? 1 : rule.ports.front();
      const Verdict verdict = matcher.address(prefix->base, Transport::Tcp, port);
      if (verdict.rule == nullptr || (rule.action == Action::Deny && verdict.allowed())) std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const auto policy = parse_policy(input);
  if (policy) check(*policy);
  if (!policy && policy.error().message.empty()) std::abort();
  const Policy old = *parse_policy(R"({"egress":[{"action":"allow","target":"a.com"},{"target":"10.0.0.0/8"}]})");
  if (const auto change = patch_policy(old, input)) {
    check(change->policy);
    const auto again = patch_policy(change->policy, input);
    if (!again || again->policy != change->policy) std::abort();
  }
  if (const auto change = delete_targets(old, input); change && change->policy.egress.size() > 2) std::abort();
  if (const auto rules = parse_overlay(input, Action::Deny)) check({.egress = *rules});
  return 0;
}
