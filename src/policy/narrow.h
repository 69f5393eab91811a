#pragma once

#include "base/error.h"
#include "policy/policy.h"

namespace osb::policy {

// The user's policy below an operator's: it may only narrow. The result allows a name or an address only if both do,
// and decides as the user's policy does wherever `outer` allows. Refused (Code::InvalidRequest, "/egress/1/target:
// ..."): a rule that allows more than `outer`, and the default action allow where that of `outer` is deny.
Result<Policy> narrow(const Policy& outer, const Policy& user);

}  // namespace osb::policy
