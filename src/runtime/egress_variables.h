#pragma once

#include <string>
#include <vector>

#include "config/server_config.h"
#include "runtime/lifecycle.h"

namespace osb::runtime {

// Where a sidecar keeps changes of its policy, which outlive the process that enforces it, and finds its authority and
// further certificates that servers may be signed by.
inline constexpr std::string_view kSidecarState = "/var/lib/opensandbox";
inline constexpr std::string_view kAuthorityFile = "authority.pem", kExtraTrustFile = "upstream-ca.pem";
inline constexpr std::string_view kProxyAuthorizationFile = "proxy-authorization";

// The variables of the egress sidecar of a sandbox with a network policy. `resolvers`: servers that it asks; none means
// those of its own /etc/resolv.conf.
api::StringMap egress_variables(const SandboxSpec& spec, const config::EgressSection& egress,
                                const std::vector<std::string>& resolvers);

}  // namespace osb::runtime
