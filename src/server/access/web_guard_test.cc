#include "server/access/web_guard.h"

#include <gtest/gtest.h>

#include "support/await.h"

namespace osb::server {
namespace {

using http::Headers;
using http::Request;
using http::Response;

// A body of which only the length matters.
class SomeBody final : public http::BodySource {
 public:
  explicit SomeBody(std::optional<std::uint64_t> length) : length_(length) {}
  net::awaitable<Result<std::string_view>> read() override { co_return std::string_view(); }
  std::optional<std::uint64_t> length() const override { return length_; }

 private:
  std::optional<std::uint64_t> length_;
};

Request request(std::string method, std::string target, Headers headers, std::optional<std::uint64_t> body = 0) {
  Request out;
  out.method = std::move(method);
  out.target = std::move(target);
  out.headers = std::move(headers);
  if (!out.headers.contains("Host")) out.headers.add("Host", "localhost:8080");
  out.body = std::make_shared<SomeBody>(body);
  return out;
}

class WebGuardTest : public ::testing::Test {
 protected:
  Response answer(Request asked, http::WebRules rules = {}) {
    WebGuard guard(authenticator, std::move(rules));
    const http::Handler handler = with_web_guard(
        [this](Request&) -> net::awaitable<Response> {
          ++served;
          Response response = http::empty_response(200);
          response.headers.add("Vary", "Accept");
          co_return response;
        },
        guard);
    return osb::testing::await(handler(asked));
  }

  Authenticator authenticator{""};
  int served = 0;
};

TEST_F(WebGuardTest, AServerWithoutAKeyAnswersToNamesOfItsMachineOnly) {
  for (const char* host : {"localhost:8080", "127.0.0.1:8080", "[::1]:8080", "x.localhost"}) {
    EXPECT_EQ(answer(request("GET", "/v1/sandboxes", {{"Host", host}})).status, 200) << host;
  }
  for (const char* host : {"evil.example.com", "localhost.evil.example.com:8080", "0.0.0.0:8080", "192.168.1.7:8080",
                           "", "localhost@evil.example.com", "box.example.com.evil.example.com"}) {
    for (const char* path : {"/v1/sandboxes", "/sandboxes/x/proxy/80/", "/health", "/"}) {
      EXPECT_EQ(answer(request("GET", path, {{"Host", host}}), {.hosts = {"box.example.com"}}).status, 403) << host;
    }
  }
  EXPECT_EQ(answer(request("GET", "/", {{"Host", "box.example.com:80"}}), {.hosts = {"box.example.com"}}).status, 200);
  EXPECT_EQ(served, 5);
}

TEST_F(WebGuardTest, AServerWithoutAKeyServesNoPageOfAnotherOrigin) {
  for (const char* origin :
       {"http://evil.example.com", "null", "http://localhost:3000", "http://id-80.localhost:8080", ""}) {
    // A list does not help without a key.
    const Response response = answer(request("GET", "/v1/sandboxes", {{"Origin", origin}}), {.origins = {"*", origin}});
    EXPECT_EQ(response.status, 403) << origin;
    EXPECT_FALSE(response.headers.contains("Access-Control-Allow-Origin")) << origin;
    const Response asked =
        answer(request("OPTIONS", "/v1/sandboxes", {{"Origin", origin}, {"Access-Control-Request-Method", "POST"}}));
    EXPECT_EQ(asked.status, 403) << origin;
  }
  EXPECT_EQ(answer(request("GET", "/", {{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Mode", "no-cors"}})).status, 403);
  EXPECT_EQ(served, 0);
  EXPECT_EQ(answer(request("GET", "/v1/sandboxes", {{"Origin", "http://localhost:8080"}})).status, 200);
}

TEST_F(WebGuardTest, AServerWithoutAKeyTakesJsonOnly) {
  const struct {
    const char* why;
    const char* target;
    const char* type;
    std::optional<std::uint64_t> length;
    int status;
  } rows[] = {
      {"JSON", "/v1/sandboxes", "application/json", 9, 200},
      {"a merge patch", "/v1/sandboxes/x/metadata", "application/merge-patch+json", 9, 200},
      {"a form of a page", "/v1/sandboxes", "text/plain", 9, 415},
      {"no type, as a Blob has", "/v1/sandboxes", "", 9, 415},
      {"chunked", "/v1/sandboxes", "text/plain", std::nullopt, 415},
      {"no body", "/v1/sandboxes/x/pause", "", 0, 200},
      {"an archive", "/v1/images/load", "application/x-tar", 9, 200},
      {"an archive of a page", "/images/load", "text/plain", 9, 415},
      {"ports of sandboxes decide for themselves", "/v1/sandboxes/x/proxy/80/form", "text/plain", 9, 200},
  };
  for (const auto& row : rows) {
    Headers headers;
    if (*row.type != '\0') headers.add("Content-Type", row.type);
    EXPECT_EQ(answer(request("POST", row.target, headers, row.length)).status, row.status) << row.why;
  }
}

TEST_F(WebGuardTest, AServerWithAKeyLetsListedOriginsRead) {
  authenticator.set_key("secret");
  const http::WebRules rules{.origins = {"https://a.example.com"}};
  const Response listed = answer(request("GET", "/v1/sandboxes", {{"Origin", "https://a.example.com"}}), rules);
  EXPECT_EQ(listed.headers.get("Access-Control-Allow-Origin"), "https://a.example.com");
  EXPECT_EQ(listed.headers.get("Access-Control-Allow-Credentials"), "true");
  EXPECT_TRUE(listed.headers.has_token("Vary", "Origin"));
  EXPECT_TRUE(listed.headers.has_token("Vary", "Accept"));
  for (const char* origin : {"https://b.example.com", "null", "https://a.example.com.evil.com"}) {
    const Response other = answer(request("GET", "/v1/sandboxes", {{"Origin", origin}}), rules);
    EXPECT_EQ(other.status, 200) << "the key decides";
    EXPECT_FALSE(other.headers.contains("Access-Control-Allow-Origin")) << origin;
  }
  const Response any = answer(request("GET", "/", {{"Origin", "https://b.example.com"}}), {.origins = {"*"}});
  EXPECT_EQ(any.headers.get("Access-Control-Allow-Origin"), "https://b.example.com");
  EXPECT_TRUE(any.headers.has_token("Access-Control-Expose-Headers", "OPEN-SANDBOX-ORIGIN"));
  EXPECT_FALSE(any.headers.contains("Access-Control-Allow-Credentials"));
}

TEST_F(WebGuardTest, PreflightsAreAnsweredBeforeTheHandler) {
  authenticator.set_key("secret");
  const http::WebRules rules{.origins = {"https://a.example.com"}};
  const auto ask = [&](const char* origin) {
    return answer(request("OPTIONS", "/v1/sandboxes",
                          {{"Origin", origin},
                           {"Access-Control-Request-Method", "PUT"},
                           {"Access-Control-Request-Headers", "x-a, x-b"}}),
                  rules);
  };
  const Response listed = ask("https://a.example.com");
  EXPECT_EQ(listed.status, 200);
  EXPECT_EQ(std::get<std::string>(listed.body), "OK");
  EXPECT_EQ(listed.headers.get("Access-Control-Allow-Origin"), "https://a.example.com");
  EXPECT_EQ(listed.headers.get("Access-Control-Allow-Methods"), "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT");
  EXPECT_EQ(listed.headers.get("Access-Control-Allow-Headers"), "x-a, x-b");
  EXPECT_EQ(listed.headers.get("Access-Control-Max-Age"), "600");
  const Response other = ask("https://b.example.com");
  EXPECT_EQ(other.status, 403);
  EXPECT_FALSE(other.headers.contains("Access-Control-Allow-Origin"));
  EXPECT_EQ(served, 0);
}

TEST_F(WebGuardTest, AServerWithAKeyTakesEveryNameAndType) {
  authenticator.set_key("secret");
  EXPECT_EQ(
      answer(request("POST", "/v1/sandboxes", {{"Host", "box.example.com"}, {"Content-Type", "text/plain"}}, 9)).status,
      200);
}

}  // namespace
}  // namespace osb::server
