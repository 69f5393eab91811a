#include "server/http/sandbox_api.h"

#include "api/lifecycle_error.h"
#include "base/log.h"
#include "base/ports.h"
#include "http/reverse_proxy.h"
#include "server/http/proxied_request.h"
#include "server/http/reach.h"
#include "server/http/wake.h"

namespace osb::server {

Result<SandboxPtr> find_policy_api(RouteContext& context, const http::Request& request, std::string_view what,
                                   const std::string& why_not) {
  const PrincipalPtr who = context.authenticator.principal_of(request);
  auto record = context.service.get(request.params["id"], who->scope());
  if (!record || (!(*record)->egress_token.empty() && why_not.empty())) return record;
  const std::string reason = why_not.empty() ? "the sandbox was made without one" : why_not;
  return api::refuse(Code::InvalidRequest, api::reason::kApiNotSupported, std::string(what) + ": " + reason);
}

net::awaitable<http::Response> forward_to_policy_api(RouteContext& context, http::Request& request, SandboxPtr record,
                                                     std::string path, std::string_view silent) {
  auto reached = co_await reach_running(context.service, std::move(record), renews(request));
  if (!reached) co_return access_refusal(reached.error());
  const std::string id = reached->record->id;
  http::ProxyTarget target;
  if (reached->instance->ports) target.origin = reached->instance->ports->route(kEgressPort).origin;
  target.target = std::move(path);
  set_forwarded_fields(target, request, NamedBy::Path, kEgressPort);
  target.add.set(api::kEgressTokenHeader, reached->record->egress_token);
  target.on_error = [&id, silent](const Error& why) {
    log_warn("policy API does not answer", {{"id", id}, {"error", why.message}});
    return http::problem(
        503, "EGRESS::UNAVAILABLE",
        "sandbox " + id + ": " + std::string(silent) + ": the program that enforces it does not answer; try again");
  };
  http::Response response = co_await http::forward(context.proxy, request, std::move(target));
  response.headers.remove("Server");
  co_return response;
}

}  // namespace osb::server
