#include "policy/policy.h"

#include <algorithm>
#include <array>
#include <span>

#include <boost/json/serialize.hpp>

#include "base/edit_distance.h"
#include "base/json_escape.h"
#include "policy/text.h"

namespace osb::policy {
namespace {

namespace json = api::json;

constexpr std::size_t kMaxPorts = 256;
constexpr api::ReadOptions kReading{.ignore_case = true};
constexpr std::array<std::string_view, 2> kPolicyKeys = {"defaultAction", "egress"};
constexpr std::array<std::string_view, 3> kRuleKeys = {"action", "target", "ports"};

void refuse_misspelt(api::ObjectReader& reader, const json::value& value, std::span<const std::string_view> known) {
  constexpr std::size_t kSimilar = 2;
  constexpr std::size_t kLongest = 32;
  const json::object* object = value.if_object();
  if (object == nullptr) return;
  for (const auto& member : *object) {
    const std::string key = lower(std::string_view(member.key().data(), member.key().size()));
    if (key.size() > kLongest) continue;
    for (const std::string_view name : known) {
      const std::size_t distance = edit_distance(key, lower(name));
      if (distance == 0) break;
      if (distance <= kSimilar) return reader.reject(key, "unknown key, did you mean " + std::string(name) + "?");
    }
  }
}

Action read_action(api::ObjectReader& reader, std::string_view name) {
  const std::string text = reader.optional_string(name).value_or("");
  const std::string action = lower(trimmed(text));
  if (action == "allow") return Action::Allow;
  if (!action.empty() && action != "deny") reader.reject(name, in_quotes(text) + " is neither allow nor deny");
  return Action::Deny;
}

std::vector<std::uint16_t> read_ports(api::ObjectReader& reader) {
  std::vector<std::uint16_t> out;
  const json::value* value = reader.find("ports");
  if (value == nullptr) return out;
  const json::array* list = value->if_array();
  if (list == nullptr || list->size() > kMaxPorts) {
    reader.reject("ports", "expected an array of at most 256 ports");
    return out;
  }
  for (const json::value& item : *list) {
    const std::int64_t* port = item.if_int64();
    if (port == nullptr || *port < 1 || *port > 65535) {
      reader.reject("ports", "a port is a number from 1 to 65535");
      return out;
    }
    out.push_back(static_cast<std::uint16_t>(*port));
  }
  std::ranges::sort(out);
  out.erase(std::ranges::unique(out).begin(), out.end());
  return out;
}

Rule read_rule(api::ObjectReader& reader, const json::value& value) {
  refuse_misspelt(reader, value, kRuleKeys);
  const Action action = read_action(reader, "action");
  const auto given = reader.optional_string("target");
  Rule rule{.action = action, .text = {}, .target = AnyAddress{}, .ports = read_ports(reader)};
  if (reader.failed()) return rule;
  if (!given) {
    // A blank target is no missing one: an empty variable must not become a rule for every address.
    if (rule.ports.empty()) reader.reject("target", "required; a rule without one needs ports");
    return rule;
  }
  const std::string_view text = trimmed(*given);
  if (text.empty()) {
    reader.reject("target", "blank");
    return rule;
  }
  auto made = make_rule(action, text);
  if (!made) {
    reader.reject("target", in_quotes(text) + ": " + made.error().message);
    return rule;
  }
  made->ports = std::move(rule.ports);
  if (!made->ports.empty() && std::holds_alternative<NameTarget>(made->target))
    reader.reject("ports", "only allowed for addresses and networks, " + in_quotes(text) + " is a name");
  return std::move(*made);
}

Result<std::vector<Rule>> read_rules(const json::value& value, const std::string& pointer) {
  const json::array* list = value.if_array();
  if (list == nullptr)
    return fail(Code::InvalidRequest, (pointer.empty() ? "body" : pointer) + ": expected an array of rules");
  std::vector<Rule> out;
  out.reserve(list->size());
  for (std::size_t i = 0; i < list->size(); ++i) {
    api::ObjectReader reader((*list)[i], kReading, pointer + "/" + std::to_string(i));
    Rule rule = read_rule(reader, (*list)[i]);
    if (auto ok = reader.finish(); !ok) return Failure(ok.error());
    out.push_back(std::move(rule));
  }
  return out;
}

json::object to_json(const Rule& rule) {
  json::object out{{"action", to_string(rule.action)}};
  if (!std::holds_alternative<AnyAddress>(rule.target)) out["target"] = rule.text;
  if (!rule.ports.empty()) out["ports"] = json::array(rule.ports.begin(), rule.ports.end());
  return out;
}

}  // namespace

std::string_view to_string(Action action) { return action == Action::Allow ? "allow" : "deny"; }

std::string Rule::key() const {
  std::string out = lower(text);
  for (const std::uint16_t port : ports) out += " " + std::to_string(port);
  return out;
}

Result<Rule> make_rule(Action action, std::string_view text) {
  auto target = parse_target(text);
  if (!target) return Failure(target.error());
  if (text.ends_with('.')) text.remove_suffix(1);
  return Rule{.action = action, .text = std::string(text), .target = std::move(*target), .ports = {}};
}

Result<Policy> parse_policy(std::string_view body) {
  if (trimmed(body).empty()) return Policy{};
  const auto value = api::parse_json(body);
  if (!value) return Failure(value.error());
  if (value->is_null()) return Policy{};
  Policy out;
  api::ObjectReader reader(*value, kReading);
  refuse_misspelt(reader, *value, kPolicyKeys);
  out.default_action = read_action(reader, "defaultAction");
  const json::value* rules = reader.find("egress");
  if (auto ok = reader.finish(); !ok) return Failure(ok.error());
  if (rules == nullptr) return out;
  auto egress = read_rules(*rules, "/egress");
  if (!egress) return Failure(egress.error());
  out.egress = std::move(*egress);
  return out;
}

Result<std::vector<Rule>> parse_rules(std::string_view body) {
  const auto value = api::parse_json(body);
  if (!value) return Failure(value.error());
  auto rules = read_rules(*value, "");
  if (rules && rules->empty()) return fail(Code::InvalidRequest, "body: expected at least one rule");
  return rules;
}

json::object to_json(const Policy& policy) {
  json::array rules;
  for (const Rule& rule : policy.egress) rules.push_back(to_json(rule));
  return {{"egress", std::move(rules)}, {"defaultAction", to_string(policy.default_action)}};
}

std::string_view mode(const Policy& policy) {
  if (!policy.egress.empty()) return "enforcing";
  return policy.default_action == Action::Allow ? "allow_all" : "deny_all";
}

std::string encode_status(const Status& status) {
  json::object out{{"status", "ok"}};
  if (!status.mode.empty()) out["mode"] = status.mode;
  if (!status.enforcement_mode.empty()) out["enforcementMode"] = status.enforcement_mode;
  if (!status.reason.empty()) out["reason"] = status.reason;
  if (status.policy != nullptr) out["policy"] = to_json(*status.policy);
  return json::serialize(out) + "\n";
}

}  // namespace osb::policy
