#include "execd/daemon/access_token.h"

#include <optional>

#include "base/constant_time.h"
#include "execd/daemon/sha256.h"
#include "http/middleware.h"
#include "http/path_token.h"

namespace osb::execd {
namespace {

http::Handler refusing(std::string_view why) {
  // `error` is the contract's key; `code` and `message` are what every other error has.
  std::string body = R"({"error":")";
  body.append(why).append(R"(","code":"UNAUTHORIZED","message":")").append(why).append(R"("})");
  return http::with_request_id(
      [body](http::Request&) -> net::awaitable<http::Response> { co_return http::json_response(401, body); });
}

}  // namespace

bool AccessToken::matches(std::string_view given) const {
  if (!state_->hash.empty()) return equal_in_constant_time(state_->hash, sha256_hex(given));
  return state_->token.empty() || equal_in_constant_time(state_->token, given);
}

void AccessToken::require_hash(std::string hash) {
  state_->token.clear();
  state_->hash = std::move(hash);
}

http::Handler with_access_token(AccessToken token, http::Handler inner) {
  return [token = std::move(token), inner = std::move(inner),
          missing = refusing("the header X-EXECD-ACCESS-TOKEN is missing"),
          wrong = refusing("the header X-EXECD-ACCESS-TOKEN does not hold the access token"),
          wrong_path = refusing("the path does not hold the access token behind /access-token/")](
             http::Request& request) -> net::awaitable<http::Response> {
    if (token.empty()) return inner(request);
    const std::optional<std::string> in_path = http::take_path_token(request.target);
    // Of several such headers the first counts, and a second one is no way around it.
    const std::string* header = request.headers.find(kAccessTokenHeader);
    const std::string_view given = in_path ? *in_path : header != nullptr ? std::string_view(*header) : "";
    if (!token.matches(given)) {
      // The path of a refused request may contain a token somewhere; it does not get into logs.
      request.target = "/";
      return (in_path ? wrong_path : header != nullptr ? wrong : missing)(request);
    }
    // A page that came by such a path names it when it asks for the next thing, and a port inside must not see it.
    if (in_path && request.headers.get("Referer").find(http::kPathTokenPrefix) != std::string_view::npos) {
      request.headers.remove("Referer");
    }
    return inner(request);
  };
}

}  // namespace osb::execd
