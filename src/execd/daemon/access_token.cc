#include "execd/daemon/access_token.h"

#include "http/middleware.h"

namespace osb::execd {
namespace {

net::awaitable<http::Response> unauthorized(http::Request& request) {
  const bool missing = !request.headers.contains(kAccessTokenHeader);
  const std::string_view why = missing ? "the header X-EXECD-ACCESS-TOKEN is missing"
                                       : "the header X-EXECD-ACCESS-TOKEN does not hold the access token";
  // `error` is the contract's key; `code` and `message` are what every other error has.
  std::string body = R"({"error":")";
  body.append(why).append(R"(","code":"UNAUTHORIZED","message":")").append(why).append(R"("})");
  co_return http::json_response(401, std::move(body));
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
          refuse = http::with_request_id(unauthorized)](http::Request& request) -> net::awaitable<http::Response> {
    // Of several such headers the first counts, and a second one is no way around it.
    const bool known = equal_in_constant_time(token, request.headers.get(kAccessTokenHeader));
    return known ? inner(request) : refuse(request);
  };
}

}  // namespace osb::execd
