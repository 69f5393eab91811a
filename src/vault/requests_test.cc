#include "vault/requests.h"

#include "vault/vault_fixture.h"

namespace osb::vault {
namespace {

using testing::one_binding;
using testing::refusal;
using testing::with_host;

constexpr const char* kBearer = R"("type":"bearer","credential":"c")";
constexpr const char* kHost = R"("hosts":["api.example.com"])";

TEST(VaultBody, DefaultsAreFilledInAndListsLoseDuplicates) {
  const auto request =
      parse_create(one_binding(R"("hosts":[" API.Example.com. ","api.example.com","*.Example.com"])", kBearer));
  ASSERT_TRUE(request) << request.error().message;
  const Match& match = request->bindings.front().match;
  EXPECT_EQ(match.hosts, (std::vector<std::string>{"api.example.com", "*.example.com"}));
  EXPECT_EQ(match.schemes, std::vector<std::string>{"https"});
  EXPECT_EQ(match.ports(), std::vector<std::uint16_t>{443});
  EXPECT_EQ(match.methods, (std::vector<std::string>{"GET", "POST", "PUT", "PATCH", "DELETE"}));
  EXPECT_EQ(match.paths, std::vector<std::string>{"/*"});
  EXPECT_EQ(request->credentials.front().value.view(), "s3cret-value");
}

TEST(VaultBody, PortFollowsFromTheScheme) {
  const auto request =
      parse_create(one_binding(R"("hosts":["api.example.com"],"schemes":[" HTTP "],"ports":[443])", kBearer));
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->bindings.front().match.ports(), std::vector<std::uint16_t>{80});
}

TEST(VaultBody, KeysAreReadInAnyCaseAndSourceTypeMayBeMissing) {
  const auto request =
      parse_create(R"({"Credentials":[{"NAME":" c ","source":{"Value":" v "}}],"bindings":null} trailing)");
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->credentials.front().name, "c");
  EXPECT_EQ(request->credentials.front().value.view(), " v ");
}

TEST(VaultBody, HostsThatNothingCanMatchAreRefused) {
  for (const char* host :
       {"api.example.com:443", "api_example.com", "localhost", "*.localhost", "*.example.com:443", "",
        "https://api.example.com", "api.example.com/x", "10.0.0.1", "::1", "[::1]", "*", "*.*.example.com", "a.*.com",
        "-a.example.com", "a-.example.com", "a..example.com", "ä.example.com"}) {
    const std::string why = refusal(with_host(host));
    EXPECT_TRUE(why.starts_with("/bindings/0/match/hosts: ")) << host << ": " << why;
  }
  EXPECT_FALSE(refusal(with_host(std::string(64, 'a') + ".example.com")).empty());
  EXPECT_TRUE(refusal(one_binding(R"("hosts":[])", kBearer)).contains("at least one host"));
}

TEST(VaultBody, FieldsWithWrongValuesAreNamed) {
  const struct {
    const char* why;
    std::string body;
    const char* place;
  } rows[] = {
      {"scheme", one_binding(R"("hosts":["a.example.com"],"schemes":["ftp"])", kBearer), "/bindings/0/match/schemes: "},
      {"port", one_binding(R"("hosts":["a.example.com"],"ports":[8080])", kBearer), "/bindings/0/match/ports: "},
      {"port zero", one_binding(R"("hosts":["a.example.com"],"ports":[0])", kBearer), "/bindings/0/match/ports: "},
      {"method", one_binding(R"("hosts":["a.example.com"],"methods":[" "])", kBearer), "/bindings/0/match/methods: "},
      {"method with blank", one_binding(R"("hosts":["a.example.com"],"methods":["GE T"])", kBearer),
       "/bindings/0/match/methods: "},
      {"path", one_binding(R"("hosts":["a.example.com"],"paths":["v1"])", kBearer), "/bindings/0/match/paths: "},
      {"path with query", one_binding(R"("hosts":["a.example.com"],"paths":["/v1?x"])", kBearer),
       "/bindings/0/match/paths: "},
      {"unknown field of match", one_binding(R"("hosts":["a.example.com"],"host":[])", kBearer),
       "/bindings/0/match/host: "},
      {"auth type", one_binding(kHost, R"("type":"digest","credential":"c")"), "/bindings/0/auth/type: "},
      {"no credential", one_binding(kHost, R"("type":"bearer","credential":" ")"), "/bindings/0/auth/credential: "},
      {"no header name", one_binding(kHost, R"("type":"apiKey","credential":"c")"), "/bindings/0/auth/name: "},
      {"reserved header", one_binding(kHost, R"("type":"apiKey","name":"Content-Length","credential":"c")"),
       "/bindings/0/auth/name: "},
      {"reserved header in any case",
       one_binding(kHost, R"("type":"apiKey","name":"x-FORWARDED-for","credential":"c")"), "/bindings/0/auth/name: "},
      {"header with blank", one_binding(kHost, R"("type":"apiKey","name":"X Key","credential":"c")"),
       "/bindings/0/auth/name: "},
      {"no headers", one_binding(kHost, R"("type":"customHeaders","headers":[])"), "/bindings/0/auth/headers: "},
      {"header twice",
       one_binding(
           kHost,
           R"("type":"customHeaders","headers":[{"name":"X-A","credential":"c"},{"name":"x-a","credential":"c"}])"),
       "/bindings/0/auth/headers/1/name: "},
      {"passthrough with credential", one_binding(kHost, R"("type":"passthrough","credential":"c")"),
       "/bindings/0/auth/credential: "},
      {"surface",
       one_binding(kHost,
                   R"("type":"passthrough","substitutions":[{"credential":"c","placeholder":"P","in":["cookie"]}])"),
       "/bindings/0/auth/substitutions/0/in: "},
      {"no surface",
       one_binding(kHost, R"("type":"passthrough","substitutions":[{"credential":"c","placeholder":"P","in":[]}])"),
       "/bindings/0/auth/substitutions/0/in: "},
      {"blank placeholder",
       one_binding(kHost,
                   R"("type":"passthrough","substitutions":[{"credential":"c","placeholder":" ","in":["body"]}])"),
       "/bindings/0/auth/substitutions/0/placeholder: "},
      {"placeholder twice",
       one_binding(kHost, R"("type":"passthrough","substitutions":[{"credential":"c","placeholder":"P","in":["body"]},
           {"credential":"c","placeholder":"P","in":["query","body"]}])"),
       "/bindings/0/auth/substitutions/1/placeholder: "},
      {"no name", R"({"credentials":[{"name":" ","source":{"value":"v"}}],"bindings":[]})", "/credentials/0/name: "},
      {"no source", R"({"credentials":[{"name":"c"}],"bindings":[]})", "/credentials/0/source: "},
      {"source type", R"({"credentials":[{"name":"c","source":{"type":"file","value":"v"}}]})",
       "/credentials/0/source/type: "},
      {"empty value", R"({"credentials":[{"name":"c","source":{"value":""}}]})", "/credentials/0/source/value: "},
      {"line break", R"({"credentials":[{"name":"c","source":{"value":"a\r\nX: y"}}]})",
       "/credentials/0/source/value: "},
      {"NUL", R"({"credentials":[{"name":"c","source":{"value":"a\u0000"}}]})", "/credentials/0/source/value: "},
      {"unknown field", R"({"credentials":[],"bindings":[],"extra":1})", "/extra: "},
      {"name twice", R"({"credentials":[{"name":"c","source":{"value":"v"}},{"name":"c ","source":{"value":"w"}}]})",
       "/credentials: "},
      {"no object", "[]", "body: "},
      {"no JSON", "{", "body: "},
      {"nothing", "", "body: "},
  };
  for (const auto& row : rows) {
    const auto request = parse_create(row.body);
    ASSERT_FALSE(request) << row.why;
    EXPECT_EQ(request.error().code, Code::InvalidRequest) << row.why;
    EXPECT_TRUE(request.error().message.starts_with(row.place)) << row.why << ": " << request.error().message;
    EXPECT_FALSE(request.error().message.contains("s3cret-value")) << row.why;
  }
}

TEST(VaultBody, ListsAreBounded) {
  std::string credentials;
  for (int i = 0; i < 257; ++i) {
    credentials += (i == 0 ? "" : ",") + (R"({"name":"c)" + std::to_string(i) + R"(","source":{"value":"v"}})");
  }
  EXPECT_TRUE(refusal(R"({"credentials":[)" + credentials + R"(],"bindings":[]})").contains("at most 256"));
  EXPECT_TRUE(refusal(std::string(kMaxBody + 1, ' ')).contains("1 MiB"));
}

TEST(VaultBody, OperatorMayRequireMethodsAndPaths) {
  const BindingRules scoped{.scoped_match = true};
  const auto why = [&](const char* match) {
    const auto request = parse_create(one_binding(match, kBearer), scoped);
    return request ? std::string() : request.error().message;
  };
  EXPECT_TRUE(why(R"("hosts":["a.example.com"],"paths":["/v1/*"])").contains("match.methods must be explicit"));
  EXPECT_TRUE(why(R"("hosts":["a.example.com"],"methods":["GET"])").contains("match.paths must be explicit"));
  EXPECT_TRUE(why(R"("hosts":["a.example.com"],"methods":["GET"],"paths":["/*"])").contains("must not contain /*"));
  EXPECT_EQ(why(R"("hosts":["a.example.com"],"methods":["GET"],"paths":["/v1/*"])"), "");
}

TEST(VaultBody, PatchUsesEachNameOnce) {
  for (const char* body : {R"({"credentials":{"delete":["c"],"add":[{"name":"c","source":{"value":"v"}}]}})",
                           R"({"credentials":{"delete":["c"," c "]}})", R"({"bindings":{"delete":[" "]}})",
                           R"({"bindings":{"remove":["b"]}})", R"({"expectedRevision":"1"})"}) {
    const auto request = parse_patch(body);
    ASSERT_FALSE(request) << body;
    EXPECT_EQ(request.error().code, Code::InvalidRequest);
  }
  const auto request = parse_patch(R"({"expectedRevision":3,"credentials":{"add":[{"name":"a","source":{"value":"1"}}],
      "replace":[{"name":"b","source":{"value":"2"}}],"delete":[" x "]},"bindings":null})");
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->expected_revision, 3);
  EXPECT_EQ(request->credentials.add.front().value.view(), "1");
  EXPECT_EQ(request->credentials.replace.front().value.view(), "2");
  EXPECT_EQ(request->credentials.remove, std::vector<std::string>{"x"});
}

}  // namespace
}  // namespace osb::vault
