#include "execd/daemon/access_token.h"

#include <optional>

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

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  // Compares `b` with itself when the lengths differ, so that only the length of what the client sent counts.
  const std::string_view other = a.size() == b.size() ? a : b;
  volatile unsigned char difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference = difference | static_cast<unsigned char>(other[i] ^ b[i]);
  }
  return difference == 0;
}

http::Handler with_access_token(std::string token, http::Handler inner) {
  if (token.empty()) return inner;
  return [token = std::move(token), inner = std::move(inner),
          missing = refusing("the header X-EXECD-ACCESS-TOKEN is missing"),
          wrong = refusing("the header X-EXECD-ACCESS-TOKEN does not hold the access token"),
          wrong_path = refusing("the path does not hold the access token behind /access-token/")](
             http::Request& request) -> net::awaitable<http::Response> {
    const std::optional<std::string> in_path = http::take_path_token(request.target);
    // Of several such headers the first counts, and a second one is no way around it.
    const std::string* header = request.headers.find(kAccessTokenHeader);
    const std::string_view given = in_path ? *in_path : header != nullptr ? std::string_view(*header) : "";
    if (!equal_in_constant_time(token, given)) {
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
