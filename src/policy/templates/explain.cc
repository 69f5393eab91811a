// The rule behind a decision, and templates as JSON.

#include <algorithm>

#include "base/json_escape.h"
#include "policy/matcher.h"
#include "policy/templates/compile.h"

namespace osb::policy {
namespace {

namespace json = api::json;

std::string target_text(const Rule& rule) {
  std::string out = rule.text.empty() ? "every address" : rule.text;
  for (std::size_t i = 0; i < rule.ports.size(); ++i) out += (i == 0 ? " port " : ",") + std::to_string(rule.ports[i]);
  return out;
}

std::string default_text(const CompiledTemplate& compiled) {
  const std::string action(to_string(compiled.default_action));
  if (compiled.default_origin.empty()) return "no rule matches, and the default is " + action;
  return "no rule matches, and default_action of template " + compiled.default_origin + " is " + action;
}

json::object encode_origin(const Origin& origin) {
  json::object out{{"kind", origin.capability.empty() ? "override" : "capability"}, {"template", origin.template_name}};
  if (!origin.capability.empty()) out["capability"] = origin.capability;
  if (!origin.part.empty()) out["part"] = origin.part;
  out["source"] = origin.source;
  if (origin.place.line > 0) {
    out["line"] = origin.place.line;
    out["column"] = origin.place.column;
  }
  return out;
}

json::object encode_rule(const CompiledRule& each) {
  json::object out{{"action", to_string(each.rule.action)}};
  if (!std::holds_alternative<AnyAddress>(each.rule.target)) out["target"] = each.rule.text;
  if (!each.rule.ports.empty()) out["ports"] = json::array(each.rule.ports.begin(), each.rule.ports.end());
  out["origin"] = encode_origin(each.origin);
  return out;
}

json::array encode_words(const std::vector<std::string>& words) { return json::array(words.begin(), words.end()); }

}  // namespace

Result<Explanation> explain(const CompiledTemplate& compiled, std::string_view host,
                            std::optional<std::uint16_t> port) {
  Explanation out;
  const Policy policy = compiled.policy();
  const Matcher matcher(policy);
  const auto address = parse_ip_address(host);
  Verdict verdict;
  if (address) {
    out.host = format_ip_address(*address);
    verdict = matcher.address(*address, port ? Transport::Tcp : Transport::Other, port.value_or(0));
  } else {
    auto name = parse_host_name(host);
    if (!name) return with_context("host " + in_quotes(host), name.error());
    out.host = std::move(*name);
    verdict = matcher.name(out.host);
  }
  out.action = verdict.action;
  if (verdict.rule != nullptr) {
    // Keys are unique in a compiled template.
    const auto rule =
        std::ranges::find(compiled.rules, verdict.rule->key(), [](const auto& each) { return each.rule.key(); });
    if (rule != compiled.rules.end()) out.rule = *rule;
    out.because = "the rule " + std::string(to_string(verdict.rule->action)) + " " + target_text(*verdict.rule);
    if (out.rule) out.because += " decides: " + out.rule->origin.text();
  } else if (address && !is_public(*address)) {
    out.action = Action::Deny;
    out.because = "it is no address of the internet: only a rule for the address or its network opens it";
  } else {
    out.because = default_text(compiled);
  }
  return out;
}

json::object to_json(const CompiledTemplate& compiled, bool with_rules) {
  json::object out{{"name", compiled.name},
                   {"description", compiled.description},
                   {"source", compiled.source},
                   {"mode", compiled.audit ? "audit" : "enforce"},
                   {"extends", encode_words(compiled.extends)},
                   {"capabilities", encode_words(compiled.capabilities)},
                   {"defaultAction", to_string(compiled.default_action)},
                   {"ruleCount", compiled.rules.size()}};
  if (!with_rules) return out;
  json::array rules;
  for (const CompiledRule& each : compiled.rules) rules.push_back(encode_rule(each));
  out["rules"] = std::move(rules);
  out["networkPolicy"] = to_json(compiled.policy());
  return out;
}

json::object to_json(const Explanation& explanation, const CompiledTemplate& compiled) {
  json::object out{{"template", compiled.name},
                   {"mode", compiled.audit ? "audit" : "enforce"},
                   {"host", explanation.host},
                   {"action", to_string(explanation.action)},
                   {"because", explanation.because}};
  if (explanation.rule) out["rule"] = encode_rule(*explanation.rule);
  return out;
}

json::object to_json(const Capability& capability) {
  json::array allow, includes;
  for (const Rule& rule : capability.allow) allow.push_back(json::string(rule.text));
  for (const auto& include : capability.includes) includes.push_back(json::string(include.name));
  return {{"name", capability.name},
          {"description", capability.description},
          {"source", capability.source},
          {"includes", std::move(includes)},
          {"allow", std::move(allow)}};
}

}  // namespace osb::policy
