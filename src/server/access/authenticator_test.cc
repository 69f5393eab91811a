#include "server/access/authenticator.h"

#include <gtest/gtest.h>

#include "api/lifecycle_error.h"
#include "support/await.h"

namespace osb::server {
namespace {

TEST(ApiKey, OnlyHealthDocumentationAndTheProxyAreOpen) {
  const struct {
    const char* why;
    const char* path;
    bool open;
  } rows[] = {
      {"health", "/health", true},
      {"version", "/version", true},
      {"readiness", "/health/ready", true},
      {"the page that says what this is", "/", true},
      {"not what begins like it", "//", false},
      {"documentation", "/docs", true},
      {"the document", "/openapi.json", true},
      {"health has no version", "/v1/health", false},
      {"the list", "/sandboxes", false},
      {"the proxy's root", "/sandboxes/x/proxy/80", true},
      {"a path behind it", "/v1/sandboxes/x/proxy/80/a/b", true},
      {"an encoded port", "/sandboxes/x/proxy/%38%30/", true},
      {"a port that is none", "/sandboxes/x/proxy/http/", false},
      {"no port", "/sandboxes/x/proxy/", false},
      {"no id", "/sandboxes//proxy/80/", false},
      {"dots", "/sandboxes/x/proxy/80/../../y", false},
      {"encoded dots", "/sandboxes/x/proxy/80/%2e%2e/y", false},
      {"dots in health", "/health/../sandboxes", false},
      {"slashes hidden in an id", "/sandboxes/x%2Fproxy%2F80", false},
      {"a broken escape", "/sandboxes/x/proxy/80/%zz", false},
      {"another prefix", "/v2/sandboxes/x/proxy/80/", false},
      {"empty", "", false},
  };
  for (const auto& row : rows) EXPECT_EQ(is_open_path(row.path), row.open) << row.why;
}

http::Request request(const std::string& path, const std::string& key = "") {
  http::Request out;
  out.method = "GET";
  out.target = path;
  if (!key.empty()) out.headers.set("OPEN-SANDBOX-API-KEY", key);
  return out;
}

int status_of(const Authenticator& authenticator, http::Request request) {
  const http::Handler handler = with_authentication(
      [](http::Request&) -> net::awaitable<http::Response> { co_return http::empty_response(200); }, authenticator);
  return osb::testing::await(handler(request)).status;
}

TEST(AuthenticatorTest, TheKeyMakesTheCallerTheAdministrator) {
  const Authenticator authenticator("secret");
  const auto principal = authenticator.authenticate(request("/v1/sandboxes", "secret"));
  ASSERT_TRUE(principal);
  EXPECT_EQ((*principal)->owner, (Owner{"default", "admin"}));
  EXPECT_TRUE((*principal)->scope().covers_all());
  EXPECT_EQ(status_of(authenticator, request("/v1/sandboxes", "secret")), 200);
}

TEST(AuthenticatorTest, AWrongKeyAndNoKeyAreRefused) {
  const Authenticator authenticator("secret");
  for (const char* wrong : {"Secret", "secre", "secret2"}) {
    const auto principal = authenticator.authenticate(request("/v1/sandboxes", wrong));
    ASSERT_FALSE(principal) << wrong;
    EXPECT_EQ(principal.error().reason, api::reason::kInvalidApiKey);
    EXPECT_EQ(status_of(authenticator, request("/v1/sandboxes", wrong)), 401);
  }
  EXPECT_EQ(authenticator.authenticate(request("/v1/sandboxes")).error().reason, api::reason::kMissingApiKey);
}

TEST(AuthenticatorTest, AServerWithoutAKeyHasOneCallerTheAdministrator) {
  const Authenticator authenticator(" ");
  EXPECT_EQ(authenticator.principal_of(request("/v1/sandboxes"))->role, Role::Administrator);
}

TEST(AuthenticatorTest, ACallerWithoutTheKeyBelongsToATenantWithoutRecords) {
  const Authenticator authenticator("secret");
  EXPECT_EQ(status_of(authenticator, request("/v1/sandboxes/x/proxy/80")), 200);
  const Scope scope = authenticator.principal_of(request("/v1/sandboxes/x/proxy/80"))->scope();
  EXPECT_FALSE(scope.covers_all());
  EXPECT_FALSE(scope.covers(kDefaultTenant));
}

TEST(AuthenticatorTest, MetricsTakeTheKeyAsABearerToken) {
  Authenticator authenticator("secret");
  http::Request scrape = request("/metrics");
  scrape.headers.set("Authorization", "Bearer secret");
  EXPECT_TRUE(authenticator.authenticate(scrape));
  scrape.target = "/v1/sandboxes";
  EXPECT_FALSE(authenticator.authenticate(scrape));
  authenticator.set_key("another");
  EXPECT_FALSE(authenticator.authenticate(request("/metrics", "secret")));
}

}  // namespace
}  // namespace osb::server
