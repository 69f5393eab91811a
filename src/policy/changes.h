#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "policy/policy.h"

// The requests that change a policy. Each function computes the policy that would be in force; its caller enforces and
// stores it, and keeps the old one if that fails. A body above kMaxBody and a policy above the limit on rules are
// Code::TooLarge, everything else that is wrong Code::InvalidRequest.
namespace osb::policy {

inline constexpr std::size_t kMaxBody = 1 << 20;
inline constexpr std::size_t kDefaultMaxRules = 4096;

struct Change {
  Policy policy = {};
  std::string reason = {};       // for the answer; empty if nothing is to be said
  bool unchanged = false;        // there is nothing to enforce
  bool reset = false;            // an empty body: the answer has no enforcementMode
  std::vector<Rule> rules = {};  // for the log: those of the request, of a DELETE the removed ones
};

// PUT and POST: the policy of the body. An empty body denies everything.
Result<Change> replace_policy(std::string_view body, std::size_t max_rules = kDefaultMaxRules);

// PATCH: the rules of the body in their order, then the old ones. Of rules with an equal key the first is kept. The
// default action stays.
Result<Change> patch_policy(const Policy& old, std::string_view body, std::size_t max_rules = kDefaultMaxRules);

// DELETE: without the rules of the targets in the body, an array of strings. Case and a dot at the end do not count,
// blank targets are skipped. Rules without a target stay: only PUT removes them.
Result<Change> delete_targets(const Policy& old, std::string_view body);

}  // namespace osb::policy
