#include "api/lifecycle_sandbox.h"
#include "base/log.h"
#include "server/http/answer.h"
#include "server/http/routes.h"

namespace osb::server {
namespace {

using http::Request;
using http::Response;
using Answer = net::awaitable<Response>;

Answer metrics_event(SandboxService&, PrincipalPtr who, Request& request) {
  auto body = co_await read_body(request);
  if (!body) co_return refusal(body.error());
  const auto event = api::decode_metrics_event(*body);
  if (!event) co_return refusal(event.error());
  log_info("client event", {{"type", event->event_type},
                            {"tenant", who->owner.tenant},
                            {"sandbox", event->sandbox_id},
                            {"ms", event->create_duration_ms},
                            {"success", event->success}});
  co_return http::empty_response(204);
}

}  // namespace

void add_other_routes(http::Router& router, RouteContext& context) {
  SandboxService& service = context.service;
  router.get("/health", [](Request&) -> Answer { co_return http::json_response(200, R"({"status":"healthy"})"); });
  router.get("/version",
             [](Request&) -> Answer { co_return http::json_response(200, R"({"version":")" OSB_VERSION R"("})"); });
  router.get("/health/ready", [&service](Request&) -> Answer {
    const auto ready = co_await service.check_ready();
    co_return ready ? http::json_response(200, R"({"status":"ready"})") : refusal(ready.error());
  });
  router.post("/v1/metrics/events", [&context](Request& request) {
    return metrics_event(context.service, context.authenticator.principal_of(request), request);
  });
}

}  // namespace osb::server
