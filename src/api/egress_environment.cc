#include "api/egress_environment.h"

#include <algorithm>
#include <array>

namespace osb::api {
namespace {

constexpr std::string_view kPrefix = "OPENSANDBOX_EGRESS_";
// The names that callers may set; the server sets the others.
constexpr std::array<std::string_view, 11> kNames = {
    "LOG_LEVEL",
    "DNS_UPSTREAM_TIMEOUT",
    "MITMPROXY_SSL_INSECURE",
    "MITMPROXY_TRANSPARENT",
    "MITMPROXY_EXTRA_PORTS",
    "DENY_WEBHOOK",
    "METRICS_EXTRA_ATTRS",
    "CREDENTIAL_VAULT_REQUIRE_TLS",
    "CREDENTIAL_VAULT_REQUIRE_SCOPED_MATCH",
    "CREDENTIAL_VAULT_TRUSTED_PROXY_CIDRS",
    "POLICY_FILE",
};

}  // namespace

bool is_reserved_egress_name(std::string_view name) {
  return name.starts_with(kPrefix) && std::ranges::find(kNames, name.substr(kPrefix.size())) == kNames.end();
}

bool is_egress_truthy(std::string_view value) {
  std::string text;
  for (const char c : value) {
    if (c != ' ' && c != '\t') text += static_cast<char>(c >= 'A' && c <= 'Z' ? c | 32 : c);
  }
  constexpr std::array<std::string_view, 5> kTrue = {"1", "true", "yes", "y", "on"};
  return std::ranges::find(kTrue, text) != kTrue.end();
}

std::map<std::string, std::string> sandbox_environment(const std::map<std::string, std::string>& env, bool has_policy) {
  std::map<std::string, std::string> out = env;
  std::erase_if(out, [has_policy](const auto& entry) {
    return entry.first.starts_with(kPrefix) && !(has_policy && entry.first == kInterceptVariable);
  });
  return out;
}

std::map<std::string, std::string> egress_environment(const std::map<std::string, std::string>& env) {
  std::map<std::string, std::string> out = env;
  std::erase_if(out, [](const auto& entry) { return !entry.first.starts_with(kPrefix); });
  return out;
}

std::string dropped_egress_names(const std::map<std::string, std::string>& env, bool has_policy, bool per_sandbox) {
  std::string out;
  for (const auto& [name, value] : egress_environment(env)) {
    if (has_policy && (per_sandbox || name == kInterceptVariable)) continue;
    out += (out.empty() ? "" : ",") + name;
  }
  return out;
}

}  // namespace osb::api
