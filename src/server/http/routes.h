#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/server_config.h"
#include "http/client.h"
#include "http/router.h"
#include "server/access/authenticator.h"
#include "server/policies/policy_library.h"
#include "server/service/sandbox_service.h"

namespace osb::server {

class CredentialSupply;

// How clients reach sandboxes.
struct EndpointOptions {
  std::string eip;             // public address of the server; "" is the request's Host
  std::string sandbox_domain;  // each port of a sandbox has a host name below it (sandbox_host.h); "" is none
  bool direct = false;         // the server listens on loopback only: its clients reach sandboxes' addresses as well
  std::optional<config::IngressSection> gateway = {};  // clients reach sandboxes through it; nothing: there is none
  // Beginnings of User-Agent: clients that ignore the headers of an endpoint get execd's token in its path instead.
  std::vector<std::string> headerless_clients;
  std::chrono::seconds answer_timeout{0};  // until a port's answer begins; 0 is no limit
};

// The dependencies of the routes; outlives the router.
struct RouteContext {
  SandboxService& service;
  http::Client& proxy;  // made with the backend's connector
  const Authenticator& authenticator;
  EndpointOptions endpoints;
  const PolicyLibrary& policies = PolicyLibrary::none();
  CredentialSupply* credentials = nullptr;  // null: vaults take no entries of the operator
};

// The lifecycle API, each route with and without /v1. Decode, call, encode: the rules live in the service.
void add_sandbox_routes(http::Router& router, RouteContext& context);
void add_snapshot_routes(http::Router& router, RouteContext& context);
void add_sandbox_template_routes(http::Router& router, RouteContext& context);
// /sandboxes/{id}/endpoints/{port} and /sandboxes/{id}/proxy/{port}/...
void add_endpoint_routes(http::Router& router, RouteContext& context);
void add_proxy_routes(http::Router& router, RouteContext& context);
// The same for requests that name the port by their host. with_sandbox_hosts() sends these to `sandboxes`, with the
// route's parameters, and all others to `api`. There a page has an origin of its own.
http::Handler proxy_by_host(RouteContext& context);
http::Handler with_sandbox_hosts(http::Handler api, http::Handler sandboxes, const RouteContext& context);
// WebSocket clients do not see the status of a refused handshake: through the proxy it is accepted instead and closed
// at once, with 1008 when the port refused it and 1011 for everything else.
http::Handler with_websocket_codes(http::Handler inner);
void add_image_routes(http::Router& router, RouteContext& context);
// /sandboxes/{id}/networkpolicy.
void add_policy_routes(http::Router& router, RouteContext& context);
// /sandboxes/{id}/credential-vault.
void add_vault_routes(http::Router& router, RouteContext& context);
// /policies: the operator's policy templates.
void add_template_routes(http::Router& router, RouteContext& context);
// Logs, events and state of a sandbox: as text for people and, with `scope`, as JSON.
void add_diagnostics_routes(http::Router& router, RouteContext& context);
// /, which says what this server is; /openapi.json, and /docs and /redoc, which show it. They need nothing from
// elsewhere.
void add_docs_routes(http::Router& router);
// /capabilities: what this server can do, and why not.
void add_capabilities_route(http::Router& router, RouteContext& context);
// /pools, on backends that have them.
void add_pool_routes(http::Router& router, RouteContext& context);
// /health, /version, /metrics/events.
void add_other_routes(http::Router& router, RouteContext& context);

inline void add_both(http::Router& router, std::string_view method, std::string_view pattern, http::Handler handler) {
  router.add(method, "/v1" + std::string(pattern), handler);
  router.add(method, pattern, std::move(handler));
}

// A handler that is told who asks.
using Action = net::awaitable<http::Response> (*)(SandboxService& service, PrincipalPtr who, http::Request& request);
inline void add_both(http::Router& router, RouteContext& context, std::string_view method, std::string_view pattern,
                     Action action) {
  add_both(router, method, pattern, [&context, action](http::Request& request) {
    return action(context.service, context.authenticator.principal_of(request), request);
  });
}

}  // namespace osb::server
