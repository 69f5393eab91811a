#include "execd/daemon/access_token.h"

#include <gtest/gtest.h>

#include "support/await.h"

namespace osb::execd {
namespace {

using testing::await;

int status_with(const http::Handler& handler, http::Headers headers) {
  http::Request request;
  request.method = "GET";
  request.target = "/ping";
  request.headers = std::move(headers);
  return await(handler(request)).status;
}

TEST(AccessToken, OnlyTheFirstHeaderCounts) {
  const http::Handler handler =
      with_access_token(AccessToken("right"),
                        [](http::Request&) -> net::awaitable<http::Response> { co_return http::empty_response(204); });
  EXPECT_EQ(status_with(handler, {{"x-execd-access-token", "right"}}), 204);
  EXPECT_EQ(status_with(handler, {}), 401);
  EXPECT_EQ(status_with(handler, {{"X-EXECD-ACCESS-TOKEN", ""}}), 401);
  EXPECT_EQ(status_with(handler, {{"X-EXECD-ACCESS-TOKEN", "wrong"}, {"X-EXECD-ACCESS-TOKEN", "right"}}), 401);
}

// The status, and the target as a log sees it afterwards.
struct Seen {
  int status;
  std::string target;
  bool operator==(const Seen&) const = default;
};
void PrintTo(const Seen& seen, std::ostream* out) { *out << seen.status << " " << seen.target; }

Seen asked(std::string target, http::Headers headers = {}) {
  const http::Handler handler =
      with_access_token(AccessToken("right"),
                        [](http::Request&) -> net::awaitable<http::Response> { co_return http::empty_response(204); });
  http::Request request;
  request.method = "GET";
  request.target = std::move(target);
  request.headers = std::move(headers);
  const int status = await(handler(request)).status;
  return {status, request.target};
}

TEST(AccessToken, InThePathItIsTakenOff) {
  EXPECT_EQ(asked("/access-token/right/ping"), (Seen{204, "/ping"}));
  EXPECT_EQ(asked("/access-token/right/files/info?path=/a"), (Seen{204, "/files/info?path=/a"}));
  EXPECT_EQ(asked("/access-token/right"), (Seen{204, "/"}));
  EXPECT_EQ(asked("/access-token/right/access-token/right/ping"), (Seen{204, "/access-token/right/ping"}));
}

TEST(AccessToken, NoOtherSpellingOfThePathOpensAnything) {
  for (const char* target : {"/access-token/wrong/ping",
                             "/access-token/righ/ping",
                             "/access-token/rightt/ping",
                             "/access-token/RIGHT/ping",
                             "/access-token//ping",
                             "/access-token/",
                             "/access-token",
                             "/access-token/right%00/ping",
                             "/access-token/%72ight/ping",
                             "/access-token/right%2Fping",
                             "/access-token/right;x/ping",
                             "/access-token/right /ping",
                             "/access-token//right/ping",
                             "/access-token/./right/ping",
                             "/access-token/x/../right/ping",
                             "/access-token/..",
                             "//access-token/right/ping",
                             "/./access-token/right/ping",
                             "/x/../access-token/right/ping",
                             "/Access-Token/right/ping",
                             "/%61ccess-token/right/ping",
                             "/access-token%2Fright/ping",
                             "/access-token?right",
                             "/access-token/?right",
                             "/ping/access-token/right",
                             "/proxy/44772/access-token/right/ping",
                             "/right/ping",
                             "/ping?access-token=right",
                             "/ping?/access-token/right/",
                             "/ping#/access-token/right",
                             "*"}) {
    // The logs of a refused request do not show its path.
    EXPECT_EQ(asked(target), (Seen{401, "/"})) << target;
  }
}

TEST(AccessToken, AHeaderDoesNotMakeUpForAWrongPath) {
  EXPECT_EQ(asked("/access-token/wrong/ping", {{"X-EXECD-ACCESS-TOKEN", "right"}}), (Seen{401, "/"}));
  EXPECT_EQ(asked("/access-token/right/ping", {{"X-EXECD-ACCESS-TOKEN", "wrong"}}), (Seen{204, "/ping"}));
}

TEST(AccessToken, APortInsideDoesNotSeeThePathOfThePageBefore) {
  std::string referer;
  const http::Handler handler =
      with_access_token(AccessToken("right"), [&](http::Request& request) -> net::awaitable<http::Response> {
        referer = request.headers.get("Referer");
        co_return http::empty_response(204);
      });
  const auto with_referer = [&](std::string value) {
    http::Request request;
    request.target = "/access-token/right/proxy/80/";
    request.headers.add("Referer", std::move(value));
    await(handler(request));
    return referer;
  };
  EXPECT_EQ(with_referer("http://h/access-token/right/proxy/80/a"), "");
  EXPECT_EQ(with_referer("http://h/a"), "http://h/a");
}

TEST(AccessToken, WithoutATokenEverythingPasses) {
  const http::Handler handler = with_access_token(
      AccessToken(""), [](http::Request&) -> net::awaitable<http::Response> { co_return http::empty_response(204); });
  EXPECT_EQ(status_with(handler, {}), 204);
}

TEST(AccessToken, AHashThatComesLaterReplacesIt) {
  AccessToken token("first");
  const http::Handler handler = with_access_token(
      token, [](http::Request&) -> net::awaitable<http::Response> { co_return http::empty_response(204); });
  EXPECT_EQ(status_with(handler, {{"X-EXECD-ACCESS-TOKEN", "first"}}), 204);
  // SHA-256 of "abc"
  token.require_hash("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(status_with(handler, {{"X-EXECD-ACCESS-TOKEN", "abc"}}), 204);
  EXPECT_EQ(status_with(handler, {{"X-EXECD-ACCESS-TOKEN", "first"}}), 401);
  EXPECT_EQ(status_with(handler, {}), 401);
}

}  // namespace
}  // namespace osb::execd
