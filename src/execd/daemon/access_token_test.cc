#include "execd/daemon/access_token.h"

#include <gtest/gtest.h>

#include "support/await.h"

namespace osb::execd {
namespace {

using testing::await;

TEST(AccessToken, OnlyEqualStringsAreEqual) {
  struct {
    const char* a;
    const char* b;
    bool equal;
  } rows[] = {{"", "", true},           {"a", "a", true}, {"token", "token", true}, {"token", "toked", false},
              {"a", "", false},         {"", "a", false}, {"token", "toke", false}, {"toke", "token", false},
              {"Token", "token", false}};
  for (const auto& row : rows) EXPECT_EQ(equal_in_constant_time(row.a, row.b), row.equal) << row.a << " " << row.b;
}

int status_with(const http::Handler& handler, http::Headers headers) {
  http::Request request;
  request.method = "GET";
  request.target = "/ping";
  request.headers = std::move(headers);
  return await(handler(request)).status;
}

TEST(AccessToken, OnlyTheFirstHeaderCounts) {
  const http::Handler handler = with_access_token(
      "right", [](http::Request&) -> net::awaitable<http::Response> { co_return http::empty_response(204); });
  EXPECT_EQ(status_with(handler, {{"x-execd-access-token", "right"}}), 204);
  EXPECT_EQ(status_with(handler, {}), 401);
  EXPECT_EQ(status_with(handler, {{"X-EXECD-ACCESS-TOKEN", ""}}), 401);
  EXPECT_EQ(status_with(handler, {{"X-EXECD-ACCESS-TOKEN", "wrong"}, {"X-EXECD-ACCESS-TOKEN", "right"}}), 401);
}

TEST(AccessToken, WithoutATokenEverythingPasses) {
  const http::Handler handler = with_access_token(
      "", [](http::Request&) -> net::awaitable<http::Response> { co_return http::empty_response(204); });
  EXPECT_EQ(status_with(handler, {}), 204);
}

}  // namespace
}  // namespace osb::execd
