#include "server/http/answer.h"

#include "api/lifecycle_error.h"
#include "http/url.h"

namespace osb::server {
namespace {

constexpr std::size_t kMaxBody = 4 << 20;

}  // namespace

http::Response refusal(const Error& error) {
  http::Response response = http::json_response(http::status_of(error.code), api::encode_error(error));
  if (error.code == Code::Exhausted || error.code == Code::Unavailable) response.headers.set("Retry-After", "1");
  return response;
}

std::vector<std::pair<std::string, std::string>> query_pairs(const http::Request& request) {
  const http::Query query = http::Query::parse(request.query());
  return {query.begin(), query.end()};
}

net::awaitable<Result<std::string>> read_body(http::Request& request) { return request.body->read_all(kMaxBody); }

}  // namespace osb::server
