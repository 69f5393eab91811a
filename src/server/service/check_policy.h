#pragma once

#include "api/lifecycle_create.h"
#include "base/error.h"

namespace osb::server {

// The network policy of a create, read by the code that enforces it, so that the two cannot disagree. 400 with the
// place of the fault; 413 for more rules than a policy may have. Success without a policy.
Result<void> check_network_policy(const api::CreateSandbox& create);

}  // namespace osb::server
