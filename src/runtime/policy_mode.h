#pragma once

#include "api/lifecycle_create.h"

namespace osb::runtime {

// The server writes the mode of a policy template into this extension of a create: "enforce" or "audit".
inline bool is_audited(const api::CreateSandbox& create) {
  const auto mode = create.extensions.find("policy.mode");
  return mode != create.extensions.end() && mode->second == "audit";
}

}  // namespace osb::runtime
