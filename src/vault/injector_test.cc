#include "vault/injector.h"

#include "vault/vault_fixture.h"

namespace osb::vault {
namespace {

using testing::make_vault;
using testing::one_binding;
using testing::text;

constexpr const char* kBearer = R"("type":"bearer","credential":"c")";

InjectorPtr injector(const std::string& body) {
  const auto vault = make_vault(body);
  EXPECT_TRUE(vault) << vault.error().message;
  auto made = vault->injector();
  EXPECT_TRUE(made) << made.error().message;
  return *made;
}

RequestHead get(std::string_view host, std::string_view target, std::span<const HeaderView> headers = {}) {
  return {.scheme = "https",
          .host = host,
          .method = "GET",
          .target = target,
          .headers = headers,
          .port = 443,
          .verified = true};
}

std::string substitutions(const char* places) {
  return R"("type":"passthrough","substitutions":[{"credential":"c","placeholder":"__P__","in":[)" +
         std::string(places) + "]}]";
}

constexpr const char* kApi = R"("hosts":["api.example.com"],"paths":["/v1/*","/exact"])";

TEST(Injector, HeadersAreRenderedAsTheTypeSays) {
  const struct {
    const char* auth;
    const char* name;
    const char* value;
  } rows[] = {
      {R"("type":"bearer","credential":"c")", "Authorization", "Bearer s3cret-value"},
      {R"("type":"basic","credential":"c")", "Authorization", "Basic s3cret-value"},
      {R"("type":"apiKey","name":"x-api-KEY","credential":"c")", "X-Api-Key", "s3cret-value"},
      {R"("type":"customHeaders","headers":[{"name":"cookie","credential":"c"}])", "Cookie", "s3cret-value"},
  };
  for (const auto& row : rows) {
    const Decision decision = injector(one_binding(kApi, row.auth))->decide(get("api.example.com", "/v1/x?y"));
    ASSERT_EQ(decision.outcome, Outcome::Injected) << row.auth;
    ASSERT_EQ(decision.headers.size(), 1) << row.auth;
    EXPECT_EQ(decision.headers[0].name, row.name);
    EXPECT_EQ(decision.headers[0].value.view(), row.value);
    EXPECT_EQ(decision.binding, "b");
    EXPECT_EQ(decision.path_pattern, "/v1/*");
    EXPECT_EQ(decision.header_names, row.name);
    EXPECT_EQ(decision.revision, 1);
    EXPECT_FALSE(decision.target);
    EXPECT_FALSE(decision.body);
  }
}

TEST(Injector, RequestsOutsideOfTheMatchStayUntouched) {
  const InjectorPtr bound = injector(one_binding(kApi, kBearer));
  RequestHead head = get("api.example.com", "/v1/x");
  EXPECT_EQ(bound->decide(head).outcome, Outcome::Injected);
  for (const char* target : {"/v1", "/v2/x", "/exact/", "/", "/x/../v1/y", "//v1/x", "*"}) {
    EXPECT_EQ(bound->decide(get("api.example.com", target)).outcome, Outcome::NoMatch) << target;
  }
  EXPECT_EQ(bound->decide(get("www.example.com", "/v1/x")).outcome, Outcome::NoMatch);
  head.method = "OPTIONS";
  EXPECT_EQ(bound->decide(head).outcome, Outcome::NoMatch);
  head.method = "post";
  EXPECT_EQ(bound->decide(head).outcome, Outcome::Injected);
  head.port = 8443;
  EXPECT_EQ(bound->decide(head).outcome, Outcome::NoMatch);
  head.port = 80;
  head.scheme = "http";
  EXPECT_EQ(bound->decide(head).outcome, Outcome::NoMatch);
}

TEST(Injector, OnlyHostsWithBindingsAreOpened) {
  const InjectorPtr bound = injector(one_binding(R"("hosts":["api.other.org","*.example.com"])", kBearer));
  EXPECT_TRUE(bound->binds("https", "api.other.org"));
  EXPECT_TRUE(bound->binds("https", "deep.api.example.com"));
  EXPECT_FALSE(bound->binds("https", "example.com"));
  EXPECT_FALSE(bound->binds("https", "badexample.com"));
  EXPECT_FALSE(bound->binds("http", "api.other.org"));
}

TEST(Injector, BoundRequestToADestinationWithoutProofIsRefused) {
  RequestHead head = get("api.example.com", "/v1/x");
  head.verified = false;
  head.unverified_because = "the address was not resolved by us";
  const Decision decision = injector(one_binding(kApi, kBearer))->decide(head);
  EXPECT_EQ(decision.outcome, Outcome::Denied);
  EXPECT_EQ(decision.status, 502);
  EXPECT_TRUE(decision.message.contains("not resolved by us"));
  EXPECT_TRUE(decision.headers.empty());
}

TEST(Injector, PathTricksOnABoundPathAreForbidden) {
  const InjectorPtr bound = injector(one_binding(kApi, kBearer));
  for (const char* target : {"/v1/../admin", "/v1/%2e%2e/admin", "/v1/..%2fadmin", "/v1/%252e%252e/x", "/v1/..;/x",
                             "/v1/a\\b", "/%761/../admin?x=/v1/"}) {
    const Decision decision = bound->decide(get("api.example.com", target));
    EXPECT_EQ(decision.outcome, Outcome::Denied) << target;
    EXPECT_EQ(decision.status, 403);
    EXPECT_EQ(decision.message, "request path contains ambiguous segments\n");
  }
  EXPECT_EQ(bound->decide(get("api.example.com", "/v1/@scope%2fname")).outcome, Outcome::Injected);
}

TEST(Injector, EscapedSlashMustNotCrossTheBorderOfABinding) {
  const InjectorPtr bound = injector(R"({"credentials":[{"name":"c","source":{"value":"v"}}],"bindings":[
    {"name":"x","match":{"hosts":["api.example.com"],"paths":["/p/a","/p/a%2Fb"]},"auth":{"type":"bearer","credential":"c"}},
    {"name":"y","match":{"hosts":["api.example.com"],"paths":["/p/a/*"]},"auth":{"type":"bearer","credential":"c"}}]})");
  EXPECT_EQ(bound->decide(get("api.example.com", "/p/a%2Fb")).outcome, Outcome::Denied);
  EXPECT_EQ(bound->decide(get("api.example.com", "/p/a/b")).binding, "y");
}

TEST(Injector, ExactHostGoesBeforeWildcard) {
  const InjectorPtr bound = injector(R"({"credentials":[{"name":"c","source":{"value":"v"}}],"bindings":[
    {"name":"wild","match":{"hosts":["*.example.com"]},"auth":{"type":"bearer","credential":"c"}},
    {"name":"exact","match":{"hosts":["api.example.com"],"paths":["/v1/*"]},"auth":{"type":"bearer","credential":"c"}}]})");
  EXPECT_EQ(bound->decide(get("api.example.com", "/v1/x")).binding, "exact");
  EXPECT_EQ(bound->decide(get("api.example.com", "/v2/x")).binding, "wild");
}

TEST(Injector, TwoBindingsForOneRequestAreRefused) {
  const auto rendered = [](const char* name) {
    Binding binding{.name = name, .match = {{"https"}, {"api.example.com"}, {"GET"}, {"/*"}}, .auth = {}};
    return Injector::Rendered{.binding = std::move(binding)};
  };
  std::vector<Injector::Rendered> both;
  both.push_back(rendered("x"));
  both.push_back(rendered("y"));
  const Injector bound(1, std::move(both), nullptr);
  const Decision decision = bound.decide(get("api.example.com", "/"));
  EXPECT_EQ(decision.outcome, Outcome::AmbiguousMatch);
  EXPECT_EQ(decision.status, 403);
  EXPECT_EQ(decision.message, "credential binding ambiguous\n");
}

TEST(Injector, PlaceholdersBecomeSecretsInPathAndQuery) {
  const InjectorPtr bound =
      injector(R"({"credentials":[{"name":"c","source":{"value":"a/b c"}}],"bindings":[{"name":"b",
    "match":{"hosts":["api.example.com"]},"auth":{)" +
               substitutions(R"("path","query")") + "}}]}");
  Decision decision = bound->decide(get("api.example.com", "/bot__P__/x?k=__P__&z=__p__"));
  ASSERT_EQ(decision.outcome, Outcome::Injected);
  EXPECT_EQ(decision.target->view(), "/bota%2Fb%20c/x?k=a%2Fb%20c&z=__p__");
  EXPECT_EQ(decision.substituted, "path,query");
  EXPECT_TRUE(decision.headers.empty());
  EXPECT_FALSE(decision.body);
  decision = bound->decide(get("api.example.com", "/none"));
  EXPECT_EQ(decision.outcome, Outcome::Injected);
  EXPECT_FALSE(decision.target);
}

TEST(Injector, PlaceholderOfAnotherPlaceStays) {
  const Decision decision =
      injector(one_binding(kApi, substitutions(R"("query")")))->decide(get("api.example.com", "/v1/__P__"));
  EXPECT_FALSE(decision.target);
}

TEST(Injector, SecretThatWouldMakeADotSegmentIsForbidden) {
  const InjectorPtr bound = injector(R"({"credentials":[{"name":"c","source":{"value":".."}}],"bindings":[{"name":"b",
    "match":{"hosts":["api.example.com"]},"auth":{)" +
                                     substitutions(R"("path")") + "}}]}");
  EXPECT_EQ(bound->decide(get("api.example.com", "/x/__P__/y")).status, 403);
}

TEST(Injector, PlaceholdersInHeadersKeepOtherLinesAndReservedFields) {
  const HeaderView headers[] = {{"X-Key", "k __P__"}, {"x-key", "other"}, {"Host", "__P__"}, {"Accept", "*/*"}};
  const Decision decision =
      injector(one_binding(kApi, substitutions(R"("header")")))->decide(get("api.example.com", "/v1/x", headers));
  ASSERT_EQ(decision.headers.size(), 2);
  EXPECT_EQ(decision.headers[0].value.view(), "k s3cret-value");
  EXPECT_EQ(decision.headers[1].value.view(), "other");
  EXPECT_EQ(decision.substituted, "header");
}

TEST(Injector, BodiesAreReplacedAsTheirTypeWrites) {
  const InjectorPtr bound =
      injector(R"({"credentials":[{"name":"c","source":{"value":"a \"b\""}}],"bindings":[{"name":"b",
    "match":{"hosts":["api.example.com"]},"auth":{)" +
               substitutions(R"("body")") + "}}]}");
  const auto body = [&](std::string_view type, std::string_view coding) -> std::string {
    const HeaderView headers[] = {{"content-TYPE", type}, {"Content-Encoding", coding}};
    const Decision decision = bound->decide(get("api.example.com", "/", headers));
    EXPECT_EQ(decision.outcome, Outcome::Injected);
    return decision.body ? std::string(decision.body->apply("[__P__]").view()) : "untouched";
  };
  EXPECT_EQ(body("application/json; charset=utf-8", ""), R"([a \"b\"])");
  EXPECT_EQ(body("application/problem+json", ""), R"([a \"b\"])");
  EXPECT_EQ(body("application/x-www-form-urlencoded", "identity"), "[a+%22b%22]");
  EXPECT_EQ(body("text/plain", ""), "[a \"b\"]");
  EXPECT_EQ(body("application/json", "gzip"), "untouched");
  EXPECT_EQ(body("multipart/form-data; boundary=x", ""), "untouched");
}

TEST(Injector, AnswersLoseRawAndRenderedSecrets) {
  const Decision bearer = injector(one_binding(kApi, kBearer))->decide(get("api.example.com", "/v1/x"));
  EXPECT_EQ(bearer.redactions->apply("got Bearer s3cret-value").view(), "got [REDACTED]");
  EXPECT_EQ(bearer.redactions->apply("got s3cret-value").view(), "got [REDACTED]");
  // "dXNlcjpwYXNzd29yZA==" is user:password.
  const InjectorPtr basic =
      injector(R"({"credentials":[{"name":"c","source":{"value":"dXNlcjpwYXNzd29yZA=="}}],"bindings":[
    {"name":"b","match":{"hosts":["api.example.com"]},"auth":{"type":"basic","credential":"c"}}]})");
  const Decision decision = basic->decide(get("api.example.com", "/"));
  EXPECT_EQ(decision.redactions->apply("user:password and password").view(), "[REDACTED] and [REDACTED]");
}

TEST(Injector, BoundRequestFailsUntilALostVaultIsFilledAgain) {
  const auto vault = make_vault(one_binding(kApi, kBearer));
  ASSERT_TRUE(vault);
  const auto restored = Vault::restore(vault->to_stored());
  ASSERT_TRUE(restored) << restored.error().message;
  const auto lost = restored->injector();
  ASSERT_TRUE(lost);
  EXPECT_TRUE((*lost)->binds("https", "api.example.com"));
  const Decision decision = (*lost)->decide(get("api.example.com", "/v1/x"));
  EXPECT_EQ(decision.outcome, Outcome::SourceError);
  EXPECT_EQ(decision.status, 502);
  EXPECT_TRUE(decision.message.contains("credential binding b has no value"));
  EXPECT_TRUE(decision.headers.empty());
}

}  // namespace
}  // namespace osb::vault
