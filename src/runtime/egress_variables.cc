#include "runtime/egress_variables.h"

#include <boost/json/serialize.hpp>

#include "api/egress_environment.h"
#include "base/text.h"
#include "runtime/policy_mode.h"

namespace osb::runtime {

api::StringMap egress_variables(const SandboxSpec& spec, const config::EgressSection& egress,
                                const std::vector<std::string>& resolvers) {
  // The request's variables first: the server's own win.
  api::StringMap out = api::egress_environment(spec.create->env);
  const auto set = [&out](std::string_view name, std::string value) {
    out["OPENSANDBOX_EGRESS_" + std::string(name)] = std::move(value);
  };
  set("RULES", boost::json::serialize(api::to_json(*spec.create->network_policy)));
  set("MODE", egress.mode);
  set("TOKEN", spec.egress_token);
  set("SANDBOX_ID", spec.id);
  // Where the file is, is no business of the request.
  const auto in_state = [](std::string_view name) { return std::string(kSidecarState) + "/" + std::string(name); };
  set("POLICY_FILE", in_state("policy.json"));
  if (is_intercepted(*spec.create)) {
    set("MITMPROXY_TRANSPARENT", "true");
    // Files, because an engine shows variables to everyone who may look at its containers.
    set("CA_FILE", in_state(kAuthorityFile));
    set("MITMPROXY_UPSTREAM_EXTRA_CA", in_state(kExtraTrustFile));
    if (egress.scrub_bodies) set("CREDENTIAL_VAULT_SCRUB_BODIES", "true");
    if (!egress.pins.empty()) set("CREDENTIAL_VAULT_PINS", joined(egress.pins, ","));
  }
  // Also without interception: the sidecar then refuses to start, instead of passing by the proxy.
  if (!egress.upstream_proxy.url.empty()) set("UPSTREAM_PROXY", egress.upstream_proxy.url);
  if (!egress.upstream_proxy.authorization.empty()) {
    set("UPSTREAM_PROXY_AUTH_FILE", in_state(kProxyAuthorizationFile));
  }
  if (!resolvers.empty()) set("DNS_UPSTREAM", joined(resolvers, ","));
  if (is_audited(*spec.create)) set("AUDIT", "true");
  if (!egress.otlp_endpoint.empty()) out["OTEL_EXPORTER_OTLP_ENDPOINT"] = egress.otlp_endpoint;
  return out;
}

}  // namespace osb::runtime
