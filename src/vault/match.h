#pragma once

#include <optional>
#include <string_view>

#include "base/error.h"
#include "policy/matcher.h"
#include "vault/binding.h"

namespace osb::vault {

// How well a host of the binding fits: 2 for the name itself, 1 for a wildcard above it, 0 for none.
int host_precedence(const Match& match, std::string_view host);

// Whether one request could match both with equal precedence.
bool clash(const Match& a, const Match& b);

// The policy must let every host of the binding through: names by a rule that covers them, or by the default action.
// Code::InvalidRequest names binding and host.
Result<void> check_coverage(const Binding& binding, const policy::Matcher& policy);

}  // namespace osb::vault
