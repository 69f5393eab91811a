#include "policy/changes.h"

#include <unordered_set>

#include "api/json.h"
#include "policy/text.h"

namespace osb::policy {
namespace {

Result<void> check_body(std::string_view body) {
  if (body.size() <= kMaxBody) return {};
  return fail(Code::TooLarge, "body: larger than 1 MiB");
}

// 0: no limit.
Result<void> check_rules(const Policy& policy, std::size_t max_rules) {
  if (max_rules == 0 || policy.egress.size() <= max_rules) return {};
  return fail(Code::TooLarge, "the policy would have " + std::to_string(policy.egress.size()) + " rules, at most " +
                                  std::to_string(max_rules) + " are allowed");
}

// As rules are compared with it: lower case, without blanks around it and without the last dot.
std::string comparable(std::string_view text) {
  text = trimmed(text);
  if (text.ends_with('.')) text.remove_suffix(1);
  return lower(text);
}

Result<std::unordered_set<std::string>> parse_targets(std::string_view body) {
  const auto value = api::parse_json(body);
  if (!value) return Failure(value.error());
  const api::json::array* list = value->if_array();
  if (list == nullptr || list->empty()) return fail(Code::InvalidRequest, "body: expected an array of targets");
  std::unordered_set<std::string> out;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const api::json::string* text = (*list)[i].if_string();
    if (text == nullptr) return fail(Code::InvalidRequest, "/" + std::to_string(i) + ": expected a string");
    if (std::string target = comparable({text->data(), text->size()}); !target.empty()) out.insert(std::move(target));
  }
  return out;
}

}  // namespace

Result<Change> replace_policy(std::string_view body, std::size_t max_rules) {
  if (auto ok = check_body(body); !ok) return Failure(ok.error());
  auto policy = parse_policy(body);
  if (!policy) return Failure(policy.error());
  if (auto ok = check_rules(*policy, max_rules); !ok) return Failure(ok.error());
  Change out{.policy = std::move(*policy)};
  if (trimmed(body).empty()) {
    out.reset = true;
    out.reason = "empty body: everything is denied";
  }
  out.rules = out.policy.egress;
  return out;
}

Result<Change> patch_policy(const Policy& old, std::string_view body, std::size_t max_rules) {
  if (auto ok = check_body(body); !ok) return Failure(ok.error());
  auto rules = parse_rules(body);
  if (!rules) return Failure(rules.error());
  Change out{.policy = {.default_action = old.default_action, .egress = {}}, .rules = std::move(*rules)};
  std::unordered_set<std::string> seen;
  for (const std::vector<Rule>* list : {&std::as_const(out.rules), &old.egress}) {
    for (const Rule& rule : *list) {
      if (seen.insert(rule.key()).second) out.policy.egress.push_back(rule);
    }
  }
  if (auto ok = check_rules(out.policy, max_rules); !ok) return Failure(ok.error());
  return out;
}

Result<Change> delete_targets(const Policy& old, std::string_view body) {
  if (auto ok = check_body(body); !ok) return Failure(ok.error());
  const auto targets = parse_targets(body);
  if (!targets) return Failure(targets.error());
  Change out{.policy = {.default_action = old.default_action, .egress = {}}};
  for (const Rule& rule : old.egress) {
    const bool remove = !rule.text.empty() && targets->contains(comparable(rule.text));
    (remove ? out.rules : out.policy.egress).push_back(rule);
  }
  if (out.rules.empty()) {
    out.unchanged = true;
    out.reason = "no matching targets found";
  }
  return out;
}

}  // namespace osb::policy
