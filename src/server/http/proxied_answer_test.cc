#include "server/http/proxied_answer.h"

#include <gtest/gtest.h>

namespace osb::server {
namespace {

using http::Headers;

constexpr std::string_view kPrefix = "/sandboxes/x/proxy/80";

TEST(ConfinedCookie, PathsStayInsideThePrefixAndDomainsGo) {
  const struct {
    const char* cookie;
    const char* want;
  } rows[] = {
      {"a=b", "a=b; Path=/sandboxes/x/proxy/80"},
      {"a=b; Path=/", "a=b; Path=/sandboxes/x/proxy/80"},
      {"a=b; Path=/sandboxes/x/proxy/80/in; Secure", "a=b; Secure; Path=/sandboxes/x/proxy/80/in"},
      {"a=b; path = /sandboxes/x/proxy/80", "a=b; Path=/sandboxes/x/proxy/80"},
      {"a=b; Path=/sandboxes/x/proxy/8080", "a=b; Path=/sandboxes/x/proxy/80"},
      {"a=b; Path=/sandboxes/x/proxy/80/; Path=/", "a=b; Path=/sandboxes/x/proxy/80"},
      {"a=b; Domain=localhost; HttpOnly", "a=b; HttpOnly; Path=/sandboxes/x/proxy/80"},
      {"a=b;DOMAIN=x;domain", "a=b; Path=/sandboxes/x/proxy/80"},
      {"Path=/; Path", "Path=/; Path=/sandboxes/x/proxy/80"},
      {"a=\"; Path=/\"", "a=\"; Path=/sandboxes/x/proxy/80"},
      {"", "; Path=/sandboxes/x/proxy/80"},
  };
  for (const auto& row : rows) EXPECT_EQ(confined_cookie(row.cookie, kPrefix), row.want) << row.cookie;
  EXPECT_EQ(confined_cookie("a=b; Path=/; Domain=example.com; Secure", ""), "a=b; Path=/; Secure");
}

TEST(ConfineToPath, FieldsOfAWholeOriginGo) {
  Headers headers = {{"service-worker-allowed", "/"},
                     {"Clear-Site-Data", "\"*\""},
                     {"Content-Type", "application/json"},
                     {"Clear-Site-Data", "\"cookies\""},
                     {"Set-Cookie", "a=b; Path=/"},
                     {"ETag", "x"},
                     {"Set-Cookie", "c=d"},
                     {"Strict-Transport-Security", "max-age=9"}};
  confine_to_path(headers, kPrefix);
  EXPECT_EQ(headers.size(), 4U);
  EXPECT_EQ(headers.count("Set-Cookie"), 2U);
  EXPECT_EQ(headers.get("Set-Cookie"), "a=b; Path=/sandboxes/x/proxy/80");
  EXPECT_EQ(headers.get("ETag"), "x");
}

TEST(ConfineToPath, DocumentsGetAnOriginOfTheirOwn) {
  const struct {
    const char* why;
    Headers headers;
    bool want;
  } rows[] = {
      {"a page", {{"Content-Type", "text/html; charset=utf-8"}}, true},
      {"an image that has scripts", {{"Content-Type", "image/svg+xml"}}, true},
      {"no type: browsers guess", {}, true},
      {"two types: browsers take the last",
       {{"Content-Type", "application/json"}, {"Content-Type", "text/html"}},
       true},
      {"two types in one", {{"Content-Type", "application/json, text/html"}}, true},
      {"a script could be a worker", {{"Content-Type", "text/javascript"}}, true},
      {"data", {{"Content-Type", "application/json"}}, false},
      {"events", {{"Content-Type", "Text/Event-Stream;charset=utf-8"}}, false},
  };
  for (const auto& row : rows) {
    Headers headers = row.headers;
    confine_to_path(headers, kPrefix);
    EXPECT_EQ(headers.get("Content-Security-Policy").starts_with("sandbox "), row.want) << row.why;
    EXPECT_FALSE(headers.get("Content-Security-Policy").contains("allow-same-origin")) << row.why;
  }
  Headers own = {{"Content-Type", "text/html"}, {"Content-Security-Policy", "sandbox allow-same-origin allow-scripts"}};
  confine_to_path(own, kPrefix);
  EXPECT_EQ(own.count("Content-Security-Policy"), 2U) << "browsers apply both";
}

TEST(ConfineToHost, CookiesAreForThatHostOnly) {
  Headers headers = {{"Set-Cookie", "a=b; Path=/; Domain=localhost"},
                     {"Clear-Site-Data", "\"*\""},
                     {"Content-Type", "text/html"},
                     {"Service-Worker-Allowed", "/"}};
  confine_to_host(headers);
  EXPECT_EQ(headers.size(), 3U);
  EXPECT_EQ(headers.get("Set-Cookie"), "a=b; Path=/");
  EXPECT_FALSE(headers.contains("Content-Security-Policy"));
}

}  // namespace
}  // namespace osb::server
