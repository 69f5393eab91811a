#include "server/access/authenticator.h"

#include <algorithm>
#include <vector>

#include "api/lifecycle_error.h"
#include "base/text.h"
#include "http/url.h"
#include "server/http/answer.h"

namespace osb::server {
namespace {

constexpr std::string_view kHeader = "OPEN-SANDBOX-API-KEY";

Failure unauthorized(std::string_view reason, std::string message) {
  return api::refuse(Code::Unauthorized, reason, std::move(message));
}

// ["v1",] "sandboxes", id, "proxy", digits [, ...]
bool is_proxy_path(std::string_view path) {
  std::vector<std::string> segments;
  for (std::size_t begin = 1; segments.size() < 5 && begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    auto segment = http::percent_decode(path.substr(begin, end - begin));
    if (!segment) return false;
    segments.push_back(std::move(*segment));
    begin = end + 1;
  }
  const std::size_t skip = !segments.empty() && segments[0] == "v1" ? 1 : 0;
  if (segments.size() < skip + 4) return false;
  const std::string& port = segments[skip + 3];
  return segments[skip] == "sandboxes" && !segments[skip + 1].empty() && segments[skip + 2] == "proxy" &&
         !port.empty() && std::ranges::all_of(port, [](char c) { return c >= '0' && c <= '9'; });
}

// Prometheus can send its secret in no other way.
std::string bearer_token(const http::Request& request) {
  constexpr std::string_view kScheme = "Bearer ";
  const std::string_view value = request.headers.get("Authorization");
  return std::string(value.starts_with(kScheme) ? value.substr(kScheme.size()) : "");
}

}  // namespace

void Authenticator::set_key(std::string_view key) {
  asks_for_key_ = !is_blank(key);
  digest_ = tls::sha256(key);
}

// Digests are of equal length, and an attacker cannot choose where they differ.
bool Authenticator::is_key(std::string_view given) const {
  const auto digest = tls::sha256(given);
  unsigned difference = 0;
  for (std::size_t i = 0; i < digest.size(); ++i) difference |= static_cast<unsigned>(digest[i] ^ digest_[i]);
  return difference == 0;
}

bool Authenticator::has_key(const http::Request& request) const {
  if (!asks_for_key_) return true;
  const std::string* given = request.headers.find(kHeader);
  return given != nullptr && is_key(*given);
}

Result<PrincipalPtr> Authenticator::authenticate(const http::Request& request) const {
  if (!asks_for_key_) return administrator_;
  const std::string* given = request.headers.find(kHeader);
  std::string bearer;
  if (given == nullptr && request.path() == "/metrics") given = &(bearer = bearer_token(request));
  if (given == nullptr || given->empty()) {
    return unauthorized(api::reason::kMissingApiKey,
                        "the header OPEN-SANDBOX-API-KEY is missing; it carries the server's key");
  }
  if (!is_key(*given)) return unauthorized(api::reason::kInvalidApiKey, "the key in OPEN-SANDBOX-API-KEY is wrong");
  return administrator_;
}

PrincipalPtr Authenticator::principal_of(const http::Request& request) const {
  const auto principal = authenticate(request);
  return principal ? *principal : nobody_;
}

Result<void> require_administrator(const Principal& who, std::string_view reason) {
  if (who.role == Role::Administrator) return {};
  return api::refuse(Code::Forbidden, api::reason::kAdministratorOnly,
                     std::string(reason) + ": this needs the administrator's key");
}

bool is_open_path(std::string_view path) {
  const auto decoded = http::percent_decode(path);
  if (!decoded || decoded->find("..") != std::string::npos) return false;
  if (path == "/") return true;
  for (const std::string_view open : {"/health", "/version", "/docs", "/redoc", "/openapi.json"}) {
    if (path.starts_with(open)) return true;
  }
  return path.starts_with('/') && is_proxy_path(path);
}

http::Handler with_authentication(http::Handler inner, const Authenticator& authenticator) {
  const auto held = std::make_shared<const http::Handler>(std::move(inner));
  return [held, &authenticator](http::Request& request) -> net::awaitable<http::Response> {
    if (is_open_path(request.path())) return (*held)(request);
    const auto principal = authenticator.authenticate(request);
    if (principal) return (*held)(request);
    return [](http::Response response) -> net::awaitable<http::Response> {
      co_return response;
    }(refusal(principal.error()));
  };
}

}  // namespace osb::server
