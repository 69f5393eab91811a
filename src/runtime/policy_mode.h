#pragma once

#include "api/egress_environment.h"
#include "api/lifecycle_create.h"
#include "api/verify_sni_extension.h"

namespace osb::runtime {

// The server writes the mode of a policy template into this extension of a create: "enforce" or "audit".
inline bool is_audited(const api::CreateSandbox& create) {
  const auto mode = create.extensions.find("policy.mode");
  return mode != create.extensions.end() && mode->second == "audit";
}

// Whether the sandbox's connections go through the interceptor: for a credential vault, or because their names are to
// be checked. The sandbox trusts the interceptor's authority then. The variable is the contract's older way to ask for
// it.
inline bool is_intercepted(const api::CreateSandbox& create) {
  const auto variable = create.env.find(std::string(api::kInterceptVariable));
  const bool by_variable = variable != create.env.end() && api::is_egress_truthy(variable->second);
  return create.network_policy &&
         (create.credential_proxy || by_variable || api::wants_verified_sni(create.extensions));
}

}  // namespace osb::runtime
