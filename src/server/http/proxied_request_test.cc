#include "server/http/proxied_request.h"

#include <gtest/gtest.h>

namespace osb::server {
namespace {

http::Request request_to(std::string target) {
  http::Request request;
  request.method = "GET";
  request.target = std::move(target);
  request.peer = "192.0.2.7";
  request.headers.add("Host", "box:8080");
  return request;
}

TEST(ProxiedRequest, TheTargetInsideIsTakenAsItCame) {
  EXPECT_EQ(target_inside(request_to("/v1/sandboxes/i/proxy/80/a%2Fb?x=%20&&"), NamedBy::Path), "/a%2Fb?x=%20&&");
  EXPECT_EQ(target_inside(request_to("/sandboxes/i/proxy/80?q"), NamedBy::Path), "/?q");
  EXPECT_EQ(target_inside(request_to("/v1/sandboxes"), NamedBy::Host), "/v1/sandboxes");
}

TEST(ProxiedRequest, ForwardingFieldsAreMadeFromTheConnection) {
  for (const NamedBy by : {NamedBy::Path, NamedBy::Host}) {
    http::ProxyTarget target;
    set_forwarded_fields(target, request_to("/"), by, 8000);
    EXPECT_EQ(target.add.get("X-Forwarded-Proto"), "http");
    EXPECT_EQ(target.add.get("X-Forwarded-Host"), "box:8080");
    EXPECT_EQ(target.add.get("X-Forwarded-For"), "192.0.2.7");
    const auto drops = [&](std::string_view name) { return std::ranges::find(target.drop, name) != target.drop.end(); };
    for (const char* name : {"Forwarded", "X-Forwarded-For", "X-Forwarded-Port", "X-Real-IP", "OPEN-SANDBOX-API-KEY",
                             "OpenSandbox-Secure-Access", "OpenSandbox-Access-Renew", "X-EXECD-ACCESS-TOKEN"}) {
      EXPECT_TRUE(drops(name)) << name;
    }
    EXPECT_EQ(drops("Cookie"), by == NamedBy::Path);
  }
}

TEST(ProxiedRequest, ThePolicyApiIsAPortOfSandboxesWithAPolicyOnly) {
  SandboxRecord record;
  EXPECT_FALSE(is_policy_api(record, 18080));
  record.egress_token = "secret";
  EXPECT_TRUE(is_policy_api(record, 18080));
  EXPECT_FALSE(is_policy_api(record, 8080));
}

TEST(ProxiedRequest, ALocationInsideGetsThePrefix) {
  struct {
    const char *why, *location, *want;
  } rows[] = {
      {"a path", "/login?next=%2F", "/p/login?next=%2F"},
      {"the root", "/", "/p/"},
      {"another host", "//evil.example", "//evil.example"},
      {"a URL", "https://a.example/x", "https://a.example/x"},
      {"relative", "next", "next"},
  };
  for (const auto& row : rows) {
    http::Headers headers{{"Location", row.location}};
    rewrite_location(headers, "/p");
    EXPECT_EQ(headers.get("Location"), row.want) << row.why;
  }
  http::Headers none;
  rewrite_location(none, "/p");
  EXPECT_TRUE(none.empty());
}

TEST(ProxiedRequest, ThePublicAddressHasAPathOfItsOwn) {
  const auto request = request_to("/v1/sandboxes/i/proxy/80/x");
  EXPECT_EQ(public_prefix(request, ""), "/v1/sandboxes/i/proxy/80");
  EXPECT_EQ(public_prefix(request, "https://box.example.com/base/"), "/base/sandboxes/i/proxy/80");
  EXPECT_EQ(public_prefix(request, "box.example.com"), "/sandboxes/i/proxy/80");
}

TEST(ProxyFailure, NamesTheStepThatFailed) {
  const auto text = [](const http::Response& response) { return std::get<std::string>(response.body); };
  Error refused(Code::Unavailable, "connect 10.0.0.2:80: Connection refused");
  refused.reason = "BACKEND_CONNECTION_FAILED";
  const auto unreachable = proxy_failure(refused, "i", 80);
  EXPECT_EQ(unreachable.status, 502);
  EXPECT_TRUE(text(unreachable).contains("BACKEND_CONNECTION_FAILED")) << text(unreachable);
  EXPECT_FALSE(text(unreachable).contains("10.0.0.2")) << "addresses stay here";
  const auto slow = proxy_failure(Error(Code::Timeout, "timed out"), "i", 80);
  EXPECT_EQ(slow.status, 504);
  EXPECT_TRUE(text(slow).contains("BACKEND_TIMEOUT"));
  const auto broken = proxy_failure(Error(Code::Unavailable, "receive: Connection reset by peer"), "i", 80);
  EXPECT_EQ(broken.status, 502);
  EXPECT_TRUE(text(broken).contains("BACKEND_RESPONSE_FAILED"));
}

}  // namespace
}  // namespace osb::server
