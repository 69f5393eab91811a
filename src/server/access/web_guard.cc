#include "server/access/web_guard.h"

#include <memory>
#include <utility>

namespace osb::server {
namespace {

using http::Request;
using http::Response;

bool is_preflight(const Request& request) {
  return request.method == "OPTIONS" && request.headers.contains("Access-Control-Request-Method");
}

Response origin_refused() {
  return http::problem(403, "GENERAL::ORIGIN_NOT_ALLOWED",
                       "web pages of this origin may not use the server; a server with a key allows the origins in "
                       "[server] allowed_origins");
}

Response preflight(const Request& request) {
  Response response = http::text_response(200, "OK");
  response.headers.add("Access-Control-Allow-Methods", "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT");
  response.headers.add("Access-Control-Max-Age", "600");
  if (const std::string* wanted = request.headers.find("Access-Control-Request-Headers")) {
    response.headers.add("Access-Control-Allow-Headers", *wanted);
  }
  return response;
}

// Bodies of the API are JSON but for archives of images. Ports of sandboxes take any type.
bool has_foreign_body(const Request& request) {
  if (request.body->length() == 0u || is_open_path(request.path())) return false;
  const std::string_view type = request.headers.get("Content-Type");
  const bool archive = request.path() == "/v1/images/load" || request.path() == "/images/load";
  return archive ? http::is_form_type(type) : !http::is_json_type(type);
}

net::awaitable<Response> ready(Response response) { co_return response; }

}  // namespace

WebGuard::WebGuard(const Authenticator& authenticator, http::WebRules rules)
    : authenticator_(authenticator), rules_(std::move(rules)) {}

std::optional<Response> WebGuard::refusal_without_key(const Request& request) const {
  const std::string_view host = request.headers.get("Host");
  if (!rules_.allows_host(host)) {
    return http::problem(403, "GENERAL::HOST_NOT_ALLOWED",
                         "this server has no key and answers only under names of its own machine, not as '" +
                             std::string(host) + "': add the name to [server] allowed_hosts, or set a key");
  }
  const std::string* origin = request.headers.find("Origin");
  if (origin != nullptr && !http::is_same_origin(*origin, host)) return origin_refused();
  if (http::is_background_request_of_other_site(request)) return origin_refused();
  if (has_foreign_body(request)) {
    return http::problem(415, "GENERAL::UNSUPPORTED_MEDIA_TYPE",
                         "Content-Type: expected application/json (application/x-tar for an archive); a server without "
                         "a key takes nothing that a web page could send");
  }
  return std::nullopt;
}

std::optional<Response> WebGuard::refusal(const Request& request) const {
  if (!authenticator_.asks_for_key()) return refusal_without_key(request);
  if (!is_preflight(request)) return std::nullopt;
  const std::string* origin = request.headers.find("Origin");
  if (origin == nullptr || rules_.allows_origin(*origin, request.headers.get("Host"))) return std::nullopt;
  return origin_refused();
}

const std::string* WebGuard::foreign_origin(const Request& request) const {
  const std::string* origin = request.headers.find("Origin");
  if (origin == nullptr || !authenticator_.asks_for_key()) return nullptr;
  const std::string_view host = request.headers.get("Host");
  return !http::is_same_origin(*origin, host) && rules_.allows_origin(*origin, host) ? origin : nullptr;
}

void WebGuard::let_read(Response& response, const std::string& origin) const {
  response.headers.set("Access-Control-Allow-Origin", origin);
  response.headers.set("Access-Control-Expose-Headers", "X-Request-ID, OPEN-SANDBOX-ORIGIN");
  // Cookies are for origins that the operator has named, not for all.
  if (rules_.names_origin(origin)) response.headers.set("Access-Control-Allow-Credentials", "true");
  if (!response.headers.has_token("Vary", "Origin")) response.headers.add("Vary", "Origin");
}

http::Handler with_web_guard(http::Handler inner, const WebGuard& guard) {
  const auto held = std::make_shared<const http::Handler>(std::move(inner));
  return [held, &guard](Request& request) -> net::awaitable<Response> {
    if (auto refused = guard.refusal(request)) return ready(std::move(*refused));
    const std::string* origin = guard.foreign_origin(request);
    if (origin == nullptr) return (*held)(request);
    // The handler may change the request.
    return [](const http::Handler& next, Request& asked, const WebGuard& rules,
              std::string page) -> net::awaitable<Response> {
      Response response = is_preflight(asked) ? preflight(asked) : co_await next(asked);
      rules.let_read(response, page);
      co_return response;
    }(*held, request, guard, *origin);
  };
}

}  // namespace osb::server
