#include "policy/narrow.h"

#include <algorithm>

#include "base/json_escape.h"
#include "policy/matcher.h"

namespace osb::policy {
namespace {

// Whether every name of `inner` is one of `outer`.
bool covers(const NameTarget& outer, const NameTarget& inner) {
  if (!outer.below) return !inner.below && inner.name == outer.name;
  if (inner.below && inner.name == outer.name) return true;
  return inner.name.size() > outer.name.size() && inner.name.ends_with(outer.name) &&
         inner.name[inner.name.size() - outer.name.size() - 1] == '.';
}

bool covers_ports(const Rule& outer, const Rule& inner) {
  if (outer.ports.empty()) return true;
  return !inner.ports.empty() && std::ranges::includes(outer.ports, inner.ports);
}

bool covers_address(const Rule& outer, const Rule& inner) {
  if (!covers_ports(outer, inner)) return false;
  if (std::holds_alternative<AnyAddress>(outer.target)) return true;
  const auto* wide = std::get_if<IpPrefix>(&outer.target);
  const auto* narrow = std::get_if<IpPrefix>(&inner.target);
  return wide != nullptr && narrow != nullptr && wide->contains(*narrow);
}

// The rules of `outer` about some of the target's names, up to the one that is about all of them. Its action, or the
// default, decides about the rest.
struct Overlap {
  std::vector<Rule> partial;
  Action rest = Action::Deny;
};

Overlap overlap(const Policy& outer, const NameTarget& target) {
  Overlap out{.partial = {}, .rest = outer.default_action};
  for (const Rule& rule : outer.egress) {
    const auto* name = std::get_if<NameTarget>(&rule.target);
    if (name == nullptr) continue;
    if (covers(*name, target)) {
      out.rest = rule.action;
      return out;
    }
    if (covers(target, *name)) out.partial.push_back(rule);
  }
  return out;
}

bool is_public_address(const Rule& rule) {
  const auto* prefix = std::get_if<IpPrefix>(&rule.target);
  return prefix != nullptr && prefix->length == prefix->base.bits() && is_public(prefix->base);
}

bool is_address(const Rule& rule) { return !std::holds_alternative<NameTarget>(rule.target); }

// Deny rules count too; they stay in the result.
bool allows_address(const Policy& outer, const Rule& rule) {
  if (outer.default_action == Action::Allow && is_public_address(rule)) return true;
  return std::ranges::any_of(outer.egress, [&](const Rule& each) {
    return each.action == Action::Allow && is_address(each) && covers_address(each, rule);
  });
}

Failure too_wide(std::size_t index, const Rule& rule) {
  const std::string at = "/egress/" + std::to_string(index) + (rule.text.empty() ? "/ports" : "/target");
  return fail(Code::InvalidRequest, at + ": " + (rule.text.empty() ? "these ports are" : in_quotes(rule.text) + " is") +
                                        " more than the policy template allows; networkPolicy may only narrow it");
}

}  // namespace

Result<Policy> narrow(const Policy& outer, const Policy& user) {
  if (user.default_action == Action::Allow && outer.default_action == Action::Deny) {
    return fail(Code::InvalidRequest,
                "/defaultAction: allow is more than the policy template allows; networkPolicy may only narrow it");
  }
  Policy out{.default_action = user.default_action, .egress = {}};
  // A deny for an address also closes it to names that resolve to it.
  for (const Rule& rule : outer.egress) {
    if (is_address(rule) && rule.action == Action::Deny) out.egress.push_back(rule);
  }
  for (std::size_t i = 0; i < user.egress.size(); ++i) {
    const Rule& rule = user.egress[i];
    if (rule.action == Action::Allow && is_address(rule)) {
      if (!allows_address(outer, rule)) return too_wide(i, rule);
    } else if (rule.action == Action::Allow) {
      Overlap found = overlap(outer, std::get<NameTarget>(rule.target));
      if (found.rest == Action::Deny) return too_wide(i, rule);
      for (Rule& each : found.partial) out.egress.push_back(std::move(each));
    }
    out.egress.push_back(rule);
  }
  // The template decides about names and addresses that the user's rules do not mention.
  if (user.default_action == Action::Allow) {
    for (const Rule& rule : outer.egress) {
      if (!is_address(rule) || rule.action == Action::Allow) out.egress.push_back(rule);
    }
  }
  return out;
}

}  // namespace osb::policy
