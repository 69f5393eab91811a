#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "api/json.h"
#include "base/error.h"
#include "policy/target.h"

namespace osb::policy {

enum class Action : std::uint8_t { Allow, Deny };
std::string_view to_string(Action action);

// The action on a target. Build it with make_rule or from JSON, so that `text` and `target` agree.
struct Rule {
  Action action = Action::Deny;
  std::string text = {};  // the target as it was written, for people; empty for AnyAddress
  Target target = {};
  std::vector<std::uint16_t> ports = {};  // TCP ports, sorted; empty: all ports and protocols. Never with a name.

  // Rules with equal keys speak about the same thing: of several only one is kept.
  std::string key() const;
  bool operator==(const Rule&) const = default;
};

Result<Rule> make_rule(Action action, std::string_view text);

struct Policy {
  Action default_action = Action::Deny;  // for names and addresses without a rule
  std::vector<Rule> egress = {};         // for names the first match wins, for addresses deny wins

  bool operator==(const Policy&) const = default;
};

// Reads {"defaultAction", "egress": [{"action", "target", "ports"}]}. An empty body, null and {} deny everything. A
// missing action is deny. Keys are read in any case; unknown keys are ignored, but a key that is almost a known one is
// refused, since ignoring "egres" or "port" would open more than was meant. Errors are Code::InvalidRequest and name
// the place: "/egress/0/target: ...".
Result<Policy> parse_policy(std::string_view body);
// The rules of a PATCH body: an array with at least one rule.
Result<std::vector<Rule>> parse_rules(std::string_view body);

// {"egress": [...], "defaultAction": ...}; parse_policy reads it back. `egress` is always an array: clients iterate it.
api::json::object to_json(const Policy& policy);

// allow_all, deny_all (no rules) or enforcing.
std::string_view mode(const Policy& policy);

// The answer of GET, PUT, PATCH and DELETE of /policy. Empty fields are left out.
struct Status {
  std::string mode = {};
  std::string enforcement_mode = {};
  std::string reason = {};
  const Policy* policy = nullptr;
};
std::string encode_status(const Status& status);  // ends with a newline

}  // namespace osb::policy
