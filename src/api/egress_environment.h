#pragma once

#include <map>
#include <string>
#include <string_view>

// Variables of a create request that are meant for the part that enforces the network policy: OPENSANDBOX_EGRESS_*.
namespace osb::api {

// Names of the prefix that only the server sets.
bool is_reserved_egress_name(std::string_view name);
// Asks for interception of TLS: the one name that the sandbox gets as well.
inline constexpr std::string_view kInterceptVariable = "OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT";
// For execd, which takes it away: the certificate (PEM) that programs of the sandbox must trust.
inline constexpr std::string_view kAuthorityVariable = "OPENSANDBOX_EGRESS_CA_CERTIFICATE";
// Takes any certificate of a server; refused where TLS is opened.
inline constexpr std::string_view kInsecureVariable = "OPENSANDBOX_EGRESS_MITMPROXY_SSL_INSECURE";
inline constexpr std::string_view kDenyWebhookVariable = "OPENSANDBOX_EGRESS_DENY_WEBHOOK";
// 1, true, yes, y and on, in any case and with blanks around.
bool is_egress_truthy(std::string_view value);

// The variables of `env` for one side. Without a policy the variables of the prefix are for nobody.
std::map<std::string, std::string> sandbox_environment(const std::map<std::string, std::string>& env, bool has_policy);
std::map<std::string, std::string> egress_environment(const std::map<std::string, std::string>& env);
// The names of the prefix that reach neither side, by commas. `per_sandbox`: the part that enforces belongs to one
// sandbox and takes its variables.
std::string dropped_egress_names(const std::map<std::string, std::string>& env, bool has_policy, bool per_sandbox);

}  // namespace osb::api
