#pragma once

#include <string_view>
#include <vector>

#include "base/error.h"
#include "policy/policy.h"

namespace osb::policy {

// An operator's rules for every sandbox. They come before the user's: deny, allow, then the user's own.
struct Overlays {
  std::vector<Rule> deny = {};   // deny.always
  std::vector<Rule> allow = {};  // allow.always
};

// The text of deny.always or allow.always: one target per line; blank lines and lines that begin with '#' are skipped.
// One wrong line refuses the whole text; the error names the line.
Result<std::vector<Rule>> parse_overlay(std::string_view text, Action action);

}  // namespace osb::policy
