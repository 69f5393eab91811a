
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>

#include "api/lifecycle_error.h"
#include "base/log.h"
#include "base/parse_number.h"
#include "base/ports.h"
#include "http/reverse_proxy.h"
#include "http/websocket.h"
#include "server/http/answer.h"
#include "server/http/proxied_answer.h"
#include "server/http/routes.h"
#include "server/http/sandbox_host.h"

namespace osb::server {
namespace {

using http::Request;
using http::Response;
using Answer = net::awaitable<Response>;

// Of RFC 6455.
constexpr std::uint16_t kPolicyViolation = 1008, kInternalError = 1011;
constexpr std::string_view kErrorCode = "GENERAL::UNKNOWN_ERROR";
// A request to a sandbox that is being created waits for it: clients then need not ask again and again.
constexpr std::chrono::seconds kPendingWait(30);

// "[/v1]/sandboxes/{id}/proxy/{port}" of the request's path: the router has matched it, so the slashes are there.
std::string_view prefix_of(const Request& request) {
  const std::string_view path = request.path();
  const int skip = path.starts_with("/v1/") ? 5 : 4;
  std::size_t at = 0;
  for (int i = 0; i < skip && at != std::string_view::npos; ++i) at = path.find('/', at + 1);
  return path.substr(0, at);
}

// How the client has named the port: by a path of the API's host or by a host name of its own.
enum class NamedBy { Path, Host };

// The path and query inside, exactly as they came.
std::string target_inside(const Request& request, NamedBy by) {
  std::string_view target = request.target;
  if (by == NamedBy::Path) target.remove_prefix(prefix_of(request).size());
  return target.starts_with('/') ? std::string(target) : "/" + std::string(target == "*" ? "" : target);
}

void add_forwarded(const Request& request, http::Headers& add) {
  const auto fill = [&](std::string_view name, std::string_view value) {
    if (!request.headers.contains(name) && !value.empty()) add.add(std::string(name), std::string(value));
  };
  fill("X-Forwarded-Proto", "http");
  fill("X-Forwarded-Host", request.headers.get("Host"));
  fill("X-Forwarded-For", request.peer);
}

Error conflict(const SandboxService& service, const SandboxRecord& record) {
  Error error(Code::Conflict, "sandbox " + record.id + " is " + record.status.state);
  error.reason = service.reason("SANDBOX_NOT_RUNNING");
  return error;
}

Answer proxy(RouteContext& context, Request& request, NamedBy by) {
  SandboxService& service = context.service;
  const std::uint16_t port = parse_number<std::uint16_t>(request.params["port"]).value_or(0);
  if (port == 0) {
    Error wrong(Code::InvalidRequest, "path/port: expected 1 to 65535");
    wrong.reason = service.reason("INVALID_PORT");
    co_return refusal(wrong);
  }
  // No principal: the port of the sandbox, or execd's token, decides who may talk to it.
  auto found = service.get(request.params["id"], Scope::all());
  if (!found) co_return refusal(found.error());
  SandboxPtr record = *found;
  service.access_renewals().touch(*record);
  if (record->status.state == api::state::kPending) {
    record = co_await service.wait_settled(record, kPendingWait);
    if (!record) co_return refusal(service.get(request.params["id"], Scope::all()).error());
    if (record->status.state == api::state::kPending) {
      co_return refusal(Error(Code::Unavailable, "sandbox " + record->id + " is still being created"));
    }
  }
  const runtime::Instance* instance = service.instance(record->id);
  if (instance != nullptr && !instance->ports) {
    co_await service.wait_for_backend(kPendingWait);
    instance = service.instance(record->id);
  }
  if (record->status.state != api::state::kRunning || instance == nullptr) {
    co_return refusal(conflict(service, *record));
  }
  http::ProxyTarget target;
  runtime::Route route;
  if (instance->ports) route = instance->ports->route(static_cast<std::uint16_t>(port));
  target.origin = std::move(route.origin);
  target.target = route.path + target_inside(request, by);
  if (!route.path.empty()) target.add.set("X-EXECD-ACCESS-TOKEN", instance->execd_token);
  target.drop = {"OPEN-SANDBOX-API-KEY"};
  if (port != kExecdPort) target.drop.emplace_back("X-EXECD-ACCESS-TOKEN");
  if (by == NamedBy::Path) {
    // These belong to the API's host.
    target.drop.insert(target.drop.end(), {"Authorization", "Cookie"});
    target.host = "sandbox:" + std::to_string(port);
  }
  add_forwarded(request, target.add);
  // Command streams and uploads take as long as they take; a dead sandbox ends its connections, and so does a client
  // that leaves.
  target.timeouts.head = std::chrono::milliseconds(0);
  target.on_error = [id = record->id, port](const Error& why) {
    if (why.code != Code::Cancelled) {
      log_warn("proxy failed", {{"id", id}, {"port", port}, {"error", why.message}});
    }
    return http::problem(502, kErrorCode, "port " + std::to_string(port) + " of sandbox " + id + " does not answer");
  };
  bool answered = true;
  target.on_error = [&answered, otherwise = std::move(target.on_error)](const Error& why) {
    answered = false;
    return otherwise(why);
  };
  const bool websocket = http::is_websocket_upgrade(request);
  Response response = co_await http::forward(context.proxy, request, std::move(target), kErrorCode);
  if (by == NamedBy::Path) {
    confine_to_path(response.headers, prefix_of(request));
  } else {
    confine_to_host(response.headers);
  }
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
    const std::uint16_t code = response.status == 403 ? kPolicyViolation : kInternalError;
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
