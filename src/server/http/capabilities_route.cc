#include <boost/json/serialize.hpp>

#include "base/text.h"
#include "server/http/routes.h"

namespace osb::server {
namespace {

namespace json = boost::json;

// `why_not` "": the server has it.
void add(json::array& out, std::string_view name, std::string_view why_not) {
  json::object feature{{"name", name}, {"available", why_not.empty()}};
  if (!why_not.empty()) feature["reason"] = why_not;
  out.push_back(std::move(feature));
}

std::string describe(const SandboxService& service) {
  const runtime::Capabilities& can = service.capabilities();
  runtime::Backend& backend = service.backend();
  constexpr std::string_view kNotHere = "this backend does not have it";
  constexpr std::string_view kCluster = "needs the kubernetes backend";
  json::array features;
  add(features, "pause", can.no_pause);
  add(features, "lifecycleHooks", "");
  add(features, "idlePolicy", can.no_pause.empty() ? can.no_idle_policy : can.no_pause);
  add(features, "templates", backend.snapshots() != nullptr ? "" : "needs a backend with snapshots");
  add(features, "snapshots", backend.snapshots() != nullptr ? "" : kNotHere);
  add(features, "logs", backend.logs() != nullptr ? "" : kNotHere);
  add(features, "images", backend.images() != nullptr ? "" : kNotHere);
  add(features, "secureAccess", can.no_secure_access);
  add(features, "networkPolicy", can.no_network_policy);
  add(features, "credentialProxy", can.no_credential_proxy);
  add(features, "closedNetworks", can.open_networks);
  add(features, "windows", can.no_windows);
  add(features, "pools", backend.pools() != nullptr ? "" : kCluster);
  add(features, "signedRoutes", can.signed_routes ? "" : "needs a gateway with signing keys");
  return json::serialize(
      json::object{{"version", OSB_VERSION}, {"backend", lower(can.backend)}, {"features", std::move(features)}});
}

}  // namespace

void add_capabilities_route(http::Router& router, RouteContext& context) {
  add_both(router, "GET", "/capabilities", [&context](http::Request&) -> net::awaitable<http::Response> {
    co_return http::json_response(200, describe(context.service));
  });
}

}  // namespace osb::server
