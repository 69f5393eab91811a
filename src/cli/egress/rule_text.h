#pragma once

#include <opensandbox/types.h>
#include <string>

#include "cli/problem.h"

namespace osb::cli {

// A rule as it is written in options: ACTION=TARGET, with TCP ports behind an '@': "allow=pypi.org", "deny=10.0.0.0/8",
// "allow=10.0.0.7@443,8443", "deny=@25" (those ports of every address).
Expected<opensandbox::NetworkRule> parse_rule(const std::string& text);

// The target part alone, for options that name the action.
Expected<opensandbox::NetworkRule> parse_target(const std::string& option, std::string action, const std::string& text);

}  // namespace osb::cli
