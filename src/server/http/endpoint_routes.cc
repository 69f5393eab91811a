#include <algorithm>

#include "api/lifecycle_endpoint.h"
#include "api/lifecycle_error.h"
#include "base/clock.h"
#include "base/ports.h"
#include "http/path_token.h"
#include "server/access/secure_access.h"
#include "server/http/answer.h"
#include "server/http/gateway_endpoint.h"
#include "server/http/proxied_request.h"
#include "server/http/routes.h"
#include "server/http/sandbox_host.h"

namespace osb::server {
namespace {

using http::Request;
using http::Response;
using Answer = net::awaitable<Response>;

// A create takes milliseconds, on a busy engine seconds. Afterwards the address is known, or the reason why there is
// none: SDKs ask for endpoints right after the create and ask for nothing else when the sandbox does not answer. A pull
// may take longer than clients wait; then they are given the proxy, which can wait.
constexpr std::chrono::seconds kOutcomeWait(10);

// The caller has shown the API key and may have the token in either form; this only decides which one it can use.
bool is_headerless(const EndpointOptions& options, const Request& request) {
  const std::string_view agent = request.headers.get("User-Agent");
  return std::ranges::any_of(options.headerless_clients,
                             [agent](const std::string& begin) { return agent.starts_with(begin); });
}

// Why a sandbox that has ended has no endpoints. A failed create is reported with the code and message of the create
// itself.
Error ended(const SandboxService& service, const SandboxRecord& record) {
  const bool never_ran = record.status.reason.contains("::");
  Error error(never_ran ? Code::Internal : Code::Conflict, "sandbox " + record.id + " is " + record.status.state);
  error.reason = never_ran ? record.status.reason : service.reason("SANDBOX_NOT_RUNNING");
  if (!record.status.message.empty()) error.message += ": " + record.status.message;
  return error;
}

Answer resolve(RouteContext& context, Request& request) {
  SandboxService& service = context.service;
  const auto pairs = query_pairs(request);
  const auto query = api::decode_endpoint_query(request.params["port"], pairs, service.capabilities().backend,
                                                service.capabilities().signed_routes);
  if (!query) co_return refusal(query.error());
  if (query->expires) {
    const auto now = std::chrono::system_clock::to_time_t(system_clock().now());
    if (auto ok = api::check_route_expiry(*query->expires, static_cast<std::uint64_t>(now)); !ok) {
      co_return refusal(ok.error());
    }
  }
  const std::string id = request.params["id"];
  const Scope scope = context.authenticator.principal_of(request)->scope();
  auto record = service.get(id, scope);
  if (!record) co_return refusal(record.error());
  // The proxy checks secure access; the port itself does not know it. A sandbox that is paused when idle cannot answer
  // by itself, and its traffic must be seen.
  const std::string secret = secure_access_token(**record);
  // The policy API: a direct way would lead through the sandbox, whose processes must not see its token.
  const bool policy_api = is_policy_api(**record, query->port);
  const bool by_gateway = context.endpoints.gateway && !query->use_server_proxy && !policy_api;
  const bool needs_proxy = query->use_server_proxy || !secret.empty() || (*record)->spec->lifecycle.idle || policy_api;
  const bool direct = (context.endpoints.direct || service.capabilities().public_endpoints) && !needs_proxy;
  (void)co_await service.wait_settled(*record, kOutcomeWait);
  record = service.get(id, scope);
  if (!record) co_return refusal(record.error());
  if ((*record)->has_ended()) co_return refusal(ended(service, **record));
  api::Endpoint out;
  if (by_gateway) out = gateway_endpoint(*context.endpoints.gateway, id, query->port, query->expires);
  std::string token;  // of execd, where it is on the way
  const runtime::Instance* instance = service.instance(id);
  if (instance != nullptr) {
    runtime::ClientRoute route;
    if (direct && !by_gateway && instance->ports) route = instance->ports->client_route(query->port);
    if (!by_gateway) out.endpoint = std::move(route.endpoint);
    if (query->port == kExecdPort || (!out.endpoint.empty() && route.through_execd)) token = instance->execd_token;
  }
  if (!token.empty()) out.headers["X-EXECD-ACCESS-TOKEN"] = token;
  // A signed route is its own proof.
  if (!secret.empty() && !(by_gateway && query->expires)) out.headers[std::string(kSecureAccessHeader)] = secret;
  if (policy_api) out.headers[std::string(api::kEgressTokenHeader)] = (*record)->egress_token;
  // A token that needs escaping would not be compared as it is; its clients need the header.
  const bool in_path = http::fits_path(token) && is_headerless(context.endpoints, request);
  if (out.endpoint.empty()) {
    const std::string_view prefix = request.path().starts_with("/v1/") ? "/v1" : "";
    out.endpoint =
        api::server_proxy_endpoint(context.endpoints.eip, request.headers.get("Host"), prefix, id, query->port);
    if (in_path) out.endpoint += http::path_of_token(token);
  } else if (in_path && !by_gateway) {
    // execd looks for it in front, before its own /proxy/{port}.
    out.endpoint.insert(std::min(out.endpoint.find('/'), out.endpoint.size()), http::path_of_token(token));
  }
  if (query->port != kExecdPort && !policy_api) {
    out.browser_url = sandbox_url(id, query->port, request.headers.get("Host"), context.endpoints.sandbox_domain);
  }
  co_return http::json_response(200, api::encode_endpoint(out));
}

}  // namespace

void add_endpoint_routes(http::Router& router, RouteContext& context) {
  add_both(router, "GET", "/sandboxes/{id}/endpoints/{port}",
           [&context](Request& request) { return resolve(context, request); });
}

}  // namespace osb::server
