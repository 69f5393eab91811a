
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>

#include "api/lifecycle_error.h"
#include "base/log.h"
#include "base/parse_number.h"
#include "base/ports.h"
#include "http/hold_until_sent.h"
#include "http/websocket.h"
#include "server/access/secure_access.h"
#include "server/http/answer.h"
#include "server/http/proxied_answer.h"
#include "server/http/proxied_request.h"
#include "server/http/reach.h"
#include "server/http/routes.h"
#include "server/http/sandbox_host.h"
#include "server/http/wake.h"

namespace osb::server {
namespace {

using http::Request;
using http::Response;
using Answer = net::awaitable<Response>;

// Of RFC 6455.
constexpr std::uint16_t kPolicyViolation = 1008, kInternalError = 1011;
constexpr std::string_view kErrorCode = "GENERAL::UNKNOWN_ERROR";
Error no_secure_access(const SandboxRecord& record) {
  Error error(Code::Unauthorized, "sandbox " + record.id + " asks for the token of its endpoints in the header " +
                                      std::string(kSecureAccessHeader) + "; it is missing or wrong");
  error.reason = "MISSING_OR_INVALID_SECURE_ACCESS";
  return error;
}

net::awaitable<Result<Reached>> reach(SandboxService& service, const Request& request) {
  // No principal: the port of the sandbox, or its token, decides who may talk to it.
  auto found = service.get(request.params["id"], Scope::all());
  if (!found) co_return Failure(found.error());
  if (!has_secure_access(request, **found)) co_return Failure(no_secure_access(**found));
  co_return co_await reach_running(service, std::move(*found), renews(request));
}

// Changes the port's answer into the one that the client gets.
void confine(Response& response, const RouteContext& context, const Request& request, NamedBy by) {
  response.headers.remove("Server");
  if (response.headers.count("Date") > 1) response.headers.set("Date", std::string(response.headers.get("Date")));
  if (by == NamedBy::Host) return confine_to_host(response.headers);
  rewrite_location(response.headers, public_prefix(request, context.endpoints.eip));
  confine_to_path(response.headers, proxy_prefix(request));
}

Answer proxy(RouteContext& context, Request& request, NamedBy by) {
  SandboxService& service = context.service;
  const std::uint16_t port = parse_number<std::uint16_t>(request.params["port"]).value_or(0);
  if (port == 0) {
    Error wrong(Code::InvalidRequest, "path/port: expected 1 to 65535");
    wrong.reason = service.reason("INVALID_PORT");
    co_return refusal(wrong);
  }
  const bool websocket = http::is_websocket_upgrade(request);
  if (!websocket && request.headers.has_token("Upgrade", "websocket")) {
    co_return http::problem(400, api::reason::kInvalidParameter,
                            "Upgrade: expected a WebSocket handshake (GET, version 13, with a key)");
  }
  auto reached = co_await reach(service, request);
  if (!reached) co_return access_refusal(reached.error());
  const std::string id = reached->record->id;
  auto access = service.idle_policies().begin_access(*reached->record);
  http::ProxyTarget target;
  runtime::Route route;
  if (reached->instance->ports) route = reached->instance->ports->route(port);
  const bool through_execd = !route.path.empty();
  target.origin = std::move(route.origin);
  target.target = route.path + target_inside(request, by);
  set_forwarded_fields(target, request, by, port);
  // The token of the policy API is for that API alone, which is not in the sandbox.
  if (!is_policy_api(*reached->record, port)) target.drop.emplace_back(api::kEgressTokenHeader);
  if (through_execd) target.add.set("X-EXECD-ACCESS-TOKEN", reached->instance->execd_token);
  // Command streams and uploads take as long as they take; a dead sandbox ends its connections, and so does a client
  // that leaves.
  target.timeouts = http::kPortTimeouts;
  target.timeouts.head = context.endpoints.answer_timeout;
  bool answered = true;
  target.on_error = [&answered, &id, &service, record = reached->record, port](const Error& why) {
    answered = false;
    if (why.code != Code::Cancelled) {
      log_warn("proxy failed", {{"id", id}, {"port", port}, {"error", why.message}});
    }
    if (const auto asleep = fell_asleep(service, *record, why)) return access_refusal(*asleep);
    return proxy_failure(why, id, port);
  };
  Response response = co_await http::forward(context.proxy, request, std::move(target));
  if (through_execd && response.headers.contains(http::kProxyFailureHeader)) {
    answered = false;
    name_failure_of_execd(response, id, port);
  }
  if (answered) response.headers.remove(kWakeHeader);
  http::hold_until_sent(response, std::move(access));
  confine(response, context, request, by);
  if (!websocket || !answered || response.status == 101) co_return response;
  co_return http::problem(
      403, kErrorCode,
      "port " + std::to_string(port) + " refused the WebSocket with " + std::to_string(response.status));
}

// The text of a refusal, cut to the size of a close frame.
std::string close_reason(const Response& refusal) {
  constexpr std::size_t kRoom = 123;
  std::string out;
  const auto* body = std::get_if<std::string>(&refusal.body);
  boost::system::error_code bad;
  const auto value = body != nullptr ? boost::json::parse(*body, bad) : boost::json::value();
  if (const auto* object = value.if_object()) {
    if (const auto* message = object->if_contains("message"); message != nullptr && message->is_string()) {
      out = message->get_string();
    }
  }
  if (out.size() > kRoom) {
    std::size_t end = kRoom;
    while (end > 0 && (static_cast<unsigned char>(out[end]) & 0xC0) == 0x80) --end;
    out.resize(end);
  }
  return out;
}

std::string first_protocol(const Request& request) {
  std::string_view offered = request.headers.get("Sec-WebSocket-Protocol");
  offered = offered.substr(0, offered.find(','));
  while (offered.starts_with(' ')) offered.remove_prefix(1);
  while (offered.ends_with(' ')) offered.remove_suffix(1);
  return std::string(offered);
}

}  // namespace

http::Handler with_websocket_codes(http::Handler inner) {
  const auto held = std::make_shared<const http::Handler>(std::move(inner));
  return [held](Request& request) -> Answer {
    if (!http::is_websocket_upgrade(request)) co_return co_await (*held)(request);
    Request handshake;
    handshake.method = request.method;
    handshake.target = request.target;
    handshake.headers = request.headers;
    Response response = co_await (*held)(request);
    if (response.status == 101 || request.route.find("/proxy/{port}") == std::string_view::npos) co_return response;
    const bool refused = response.status == 401 || response.status == 403;
    const std::uint16_t code = refused ? kPolicyViolation : kInternalError;
    co_return http::websocket_response(
        handshake, {},
        [code, why = close_reason(response)](http::WebSocket& socket) { return socket.close(code, why); },
        first_protocol(handshake));
  };
}

void add_proxy_routes(http::Router& router, RouteContext& context) {
  for (const std::string_view method : {"GET", "POST", "PUT", "PATCH", "DELETE"}) {
    add_both(router, method, "/sandboxes/{id}/proxy/{port}/{rest*}",
             [&context](Request& request) { return proxy(context, request, NamedBy::Path); });
    add_both(router, method, "/sandboxes/{id}/proxy/{port}",
             [&context](Request& request) { return proxy(context, request, NamedBy::Path); });
  }
}

http::Handler proxy_by_host(RouteContext& context) {
  return [&context](Request& request) { return proxy(context, request, NamedBy::Host); };
}

http::Handler with_sandbox_hosts(http::Handler api, http::Handler sandboxes, const RouteContext& context) {
  return [api = std::move(api), sandboxes = std::move(sandboxes), &context](Request& request) -> Answer {
    auto named = parse_sandbox_host(request.headers.get("Host"), context.endpoints.sandbox_domain);
    if (!named) return api(request);
    request.route = "/sandboxes/{id}/proxy/{port}/{rest*}";
    request.params.clear();
    request.params.add("id", std::move(named->id));
    request.params.add("port", std::to_string(named->port));
    const std::string_view path = request.path();
    request.params.add("rest", std::string(path.substr(path.starts_with('/') ? 1 : 0)));
    return sandboxes(request);
  };
}

}  // namespace osb::server
