#include "vault/vault.h"

#include "vault/vault_fixture.h"

namespace osb::vault {
namespace {

using testing::make_vault;
using testing::matcher;
using testing::one_binding;
using testing::patch;
using testing::refusal;
using testing::text;
using testing::with_host;

constexpr const char* kEmpty = R"({"credentials":[],"bindings":[]})";

std::string bindings(const std::string& first, const std::string& second) {
  const auto one = [](const char* name, const std::string& match) {
    return std::string(R"({"name":")") + name + R"(","match":{)" + match +
           R"(},"auth":{"type":"bearer","credential":"c"}})";
  };
  return R"({"credentials":[{"name":"c","source":{"value":"v"}}],"bindings":[)" + one("x", first) + "," +
         one("y", second) + "]}";
}

TEST(Vault, StateShowsNamesSortedAndNeverValues) {
  const auto vault = make_vault(
      R"({"credentials":[{"name":"z","source":{"value":"s3cret-z"}},{"name":"a","source":{"value":"s3cret-a"}}],
    "bindings":[{"name":"two","match":{"hosts":["two.example.com"]},"auth":{"type":"apiKey","name":"PRIVATE-TOKEN","credential":"z"}},
      {"name":"one","match":{"hosts":["one.example.com"]},"auth":{"type":"customHeaders","headers":[{"name":"x-hidden","credential":"a"}]}}]})");
  ASSERT_TRUE(vault) << vault.error().message;
  EXPECT_EQ(
      text(vault->state()),
      R"({"revision":1,"credentials":[{"name":"a","sourceType":"inline","revision":1},{"name":"z","sourceType":"inline","revision":1}],)"
      R"("bindings":[{"name":"one","revision":1,"match":{"schemes":["https"],"ports":[443],"hosts":["one.example.com"],)"
      R"("methods":["GET","POST","PUT","PATCH","DELETE"],"paths":["/*"]},"auth":{"type":"customHeaders"}},)"
      R"({"name":"two","revision":1,"match":{"schemes":["https"],"ports":[443],"hosts":["two.example.com"],)"
      R"("methods":["GET","POST","PUT","PATCH","DELETE"],"paths":["/*"]},"auth":{"type":"apiKey","name":"Private-Token"}}]})");
  EXPECT_EQ(text(*vault->credential("a")), R"({"name":"a","sourceType":"inline","revision":1})");
  EXPECT_EQ(vault->credential("b").error().code, Code::NotFound);
  EXPECT_EQ(vault->binding("b").error().code, Code::NotFound);
  EXPECT_TRUE(text(*vault->binding("one")).contains("one.example.com"));
}

TEST(Vault, ConformanceSequenceOfRevisions) {
  auto vault = make_vault(kEmpty);
  ASSERT_TRUE(vault);
  EXPECT_EQ(text(vault->state()), R"({"revision":1,"credentials":[],"bindings":[]})");
  const auto step = [&](std::string_view body, std::uint64_t revision) {
    auto next = patch(*vault, body);
    ASSERT_TRUE(next) << next.error().message;
    EXPECT_EQ(next->revision(), revision);
    vault = std::move(next);
  };
  step(R"({"expectedRevision":1,"credentials":{"add":[{"name":"t","source":{"value":"v"}}]},"bindings":{"add":[
      {"name":"b","match":{"hosts":["api.example.com"],"paths":["/a"]},"auth":{"type":"bearer","credential":"t"}}]}})",
       2);
  EXPECT_EQ(patch(*vault, R"({"expectedRevision":1})").error().code, Code::Conflict);
  EXPECT_EQ(patch(*vault, R"({"credentials":{"delete":["t"]}})").error().code, Code::InvalidRequest);
  step(R"({"bindings":{"delete":["b"]}})", 3);
  step(R"({"credentials":{"replace":[{"name":"t","source":{"value":"w"}}]},"bindings":{"add":[
      {"name":"other","match":{"hosts":["api.example.com"],"paths":["/b"]},"auth":{"type":"bearer","credential":"t"}}]}})",
       4);
  EXPECT_EQ(text(*vault->credential("t")), R"({"name":"t","sourceType":"inline","revision":4})");
  step(R"({"bindings":{"delete":["other"]}})", 5);
  step(R"({"credentials":{"delete":["t"]}})", 6);
  step("{}", 7);
}

TEST(Vault, ChangesOfUnknownAndKnownNamesAreRefused) {
  const auto vault = make_vault(with_host("api.example.com"));
  ASSERT_TRUE(vault) << vault.error().message;
  for (
      const char* body :
      {R"({"credentials":{"delete":["d"]}})", R"({"bindings":{"delete":["d"]}})",
       R"({"credentials":{"replace":[{"name":"d","source":{"value":"v"}}]}})",
       R"({"credentials":{"add":[{"name":"c","source":{"value":"v"}}]}})",
       R"({"bindings":{"add":[{"name":"b","match":{"hosts":["x.example.com"]},"auth":{"type":"bearer","credential":"c"}}]}})",
       R"({"bindings":{"add":[{"name":"n","match":{"hosts":["x.example.com"]},"auth":{"type":"bearer","credential":"no"}}]}})"}) {
    const auto refused = patch(*vault, body);
    ASSERT_FALSE(refused) << body;
    EXPECT_EQ(refused.error().code, Code::InvalidRequest) << body;
  }
  EXPECT_EQ(vault->revision(), 1);
  EXPECT_TRUE(patch(*vault, R"({"credentials":{"delete":["c"]},"bindings":{"delete":["b"]}})"));
}

TEST(Vault, HostsNeedThePolicy) {
  EXPECT_EQ(refusal(with_host("api.other.org")), "");
  EXPECT_EQ(refusal(with_host("*.example.com")), "");
  EXPECT_TRUE(refusal(with_host("closed.example.com")).contains("not allowed by egress policy"));
  EXPECT_TRUE(refusal(with_host("api.elsewhere.org")).contains("api.elsewhere.org"));
  EXPECT_FALSE(refusal(with_host("*.other.org")).empty());
  constexpr std::string_view kProbe =
      R"({"defaultAction":"deny","egress":[{"action":"allow","target":"probe.x.org"}]})";
  EXPECT_FALSE(refusal(with_host("*.x.org"), kProbe).empty());
  constexpr std::string_view kOpen = R"({"defaultAction":"allow","egress":[{"action":"deny","target":"no.x.org"}]})";
  EXPECT_EQ(refusal(with_host("api.x.org"), kOpen), "");
  EXPECT_FALSE(refusal(with_host("no.x.org"), kOpen).empty());
  EXPECT_EQ(refusal(kEmpty, "{}"), "");
}

TEST(Vault, PolicyThatClosesABoundHostIsRefused) {
  const auto vault = make_vault(with_host("api.other.org"));
  ASSERT_TRUE(vault);
  EXPECT_TRUE(vault->check_policy(*matcher()));
  EXPECT_FALSE(vault->check_policy(*matcher("")));
}

TEST(Vault, BindingsThatOneRequestCouldMatchAreAmbiguous) {
  const struct {
    const char* why;
    const char* first;
    const char* second;
    bool clash;
  } rows[] = {
      {"same host", R"("hosts":["a.example.com"])", R"("hosts":["a.example.com"])", true},
      {"other host", R"("hosts":["a.example.com"])", R"("hosts":["b.example.com"])", false},
      {"exact beside wildcard", R"("hosts":["a.example.com"])", R"("hosts":["*.example.com"])", false},
      {"wildcard below wildcard", R"("hosts":["*.a.example.com"])", R"("hosts":["*.example.com"])", true},
      {"other path", R"("hosts":["a.example.com"],"paths":["/a/*"])", R"("hosts":["a.example.com"],"paths":["/b/*"])",
       false},
      {"path below", R"("hosts":["a.example.com"],"paths":["/a/*"])", R"("hosts":["a.example.com"],"paths":["/a/b"])",
       true},
      {"same path, escaped", R"("hosts":["a.example.com"],"paths":["/a"])",
       R"("hosts":["a.example.com"],"paths":["/%61"])", true},
      {"other method", R"("hosts":["a.example.com"],"methods":["GET"])",
       R"("hosts":["a.example.com"],"methods":["PUT"])", false},
      {"other scheme", R"("hosts":["a.example.com"],"schemes":["http"])", R"("hosts":["a.example.com"])", false},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(refusal(bindings(row.first, row.second)).contains("ambiguous"), row.clash) << row.why;
  }
}

TEST(Vault, StoredFormHasNoValuesAndComesBackToBeFilledAgain) {
  const auto vault = make_vault(one_binding(
      R"("hosts":["api.example.com"],"paths":["/v1/*"])",
      R"("type":"apiKey","name":"X-Key","credential":"c","substitutions":[{"credential":"c","placeholder":"__P__","in":["query"]}])"));
  ASSERT_TRUE(vault) << vault.error().message;
  const auto stored = vault->to_stored();
  EXPECT_FALSE(text(stored).contains("s3cret-value"));
  const auto back = Vault::restore(stored);
  ASSERT_TRUE(back) << back.error().message;
  auto emptied = vault->state();
  emptied["missingValues"] = boost::json::array{"c"};
  EXPECT_EQ(text(back->state()), text(emptied));
  EXPECT_EQ(text(back->to_stored()), text(stored));
  EXPECT_TRUE(vault->to_refill().empty());
  EXPECT_EQ(back->to_refill(), std::vector<std::string>{"c"});
  const auto filled = patch(*back, R"({"credentials":{"replace":[{"name":"c","source":{"value":"again"}}]}})");
  ASSERT_TRUE(filled) << filled.error().message;
  EXPECT_TRUE(filled->to_refill().empty());
  for (
      const char* wrong :
      {"{}", "[]", R"({"revision":0})", R"({"revision":1,"bindings":[{}]})",
       R"({"revision":1,"bindings":[{"name":"b","match":{"hosts":["a.b"]},"auth":{"type":"bearer","credential":"c"}}]})"}) {
    EXPECT_FALSE(Vault::restore(*api::parse_json(wrong))) << wrong;
  }
}

constexpr std::string_view kOperators =
    R"({"credentials":[{"name":"c","source":{"type":"operator","entry":"model-key","value":"s3cret-value",
        "hosts":["api.example.com","*.deep.example.com"],"expiresAt":"2033-05-18T03:33:20Z"}}],"bindings":[]})";

std::string bind_to(const std::string& host) {
  return R"({"bindings":{"add":[{"name":"b","match":{"hosts":[")" + host +
         R"("]},"auth":{"type":"bearer","credential":"c"}}]}})";
}

TEST(Vault, ValueOfTheOperatorGoesToItsHostsOnly) {
  const auto vault = make_vault(kOperators);
  ASSERT_TRUE(vault) << vault.error().message;
  EXPECT_EQ(
      text(*vault->credential("c")),
      R"({"name":"c","sourceType":"operator","entry":"model-key","hosts":["api.example.com","*.deep.example.com"],)"
      R"("expiresAt":"2033-05-18T03:33:20Z","revision":1})");
  for (const char* host : {"api.example.com", "*.deep.example.com", "a.deep.example.com", "*.a.deep.example.com"}) {
    EXPECT_TRUE(patch(*vault, bind_to(host))) << host;
  }
  for (const char* host : {"other.example.com", "*.example.com", "deep.example.com", "xdeep.example.com"}) {
    const auto refused = patch(*vault, bind_to(host));
    ASSERT_FALSE(refused) << host;
    EXPECT_TRUE(refused.error().message.contains("\"model-key\" may not go to " + std::string(host)))
        << refused.error().message;
  }
  // Also after a restart.
  const auto back = Vault::restore(vault->to_stored());
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(text(back->to_stored()), text(vault->to_stored()));
  EXPECT_FALSE(patch(*back, bind_to("other.example.com")));
}

TEST(Vault, ValueThatHasExpiredIsNotSent) {
  const auto bound = patch(*make_vault(kOperators), bind_to("api.example.com"));
  ASSERT_TRUE(bound) << bound.error().message;
  FakeClock clock(std::chrono::system_clock::time_point(std::chrono::seconds(1'999'999'999)));
  const auto injector = bound->injector(clock);
  const RequestHead request{.scheme = "https",
                            .host = "api.example.com",
                            .method = "GET",
                            .target = "/",
                            .headers = {},
                            .port = 443,
                            .verified = true};
  EXPECT_EQ((*injector)->decide(request).outcome, Outcome::Injected);
  EXPECT_EQ((*injector)->decide(request).source_type, "operator");
  clock.advance(std::chrono::seconds(1));
  const Decision refused = (*injector)->decide(request);
  EXPECT_EQ(refused.outcome, Outcome::SourceError);
  EXPECT_EQ(refused.status, 502);
  EXPECT_TRUE(refused.message.contains("binding b") && refused.message.contains("model-key")) << refused.message;
  EXPECT_TRUE(refused.headers.empty());
}

TEST(Vault, SourceOfTheOperatorNeedsAValueAndHosts) {
  const auto with = [](const std::string& source) {
    return refusal(R"({"credentials":[{"name":"c","source":{)" + source + R"(}}],"bindings":[]})");
  };
  EXPECT_TRUE(with(R"("type":"operator","entry":"e","hosts":["a.example.com"])").contains("the server fetches it"));
  EXPECT_TRUE(with(R"("type":"operator","entry":"e","value":"v")").contains("hosts"));
  EXPECT_TRUE(with(R"("type":"operator","value":"v","hosts":["a.example.com"])").contains("entry"));
  EXPECT_TRUE(with(R"("value":"v","hosts":["a.example.com"])").contains("only with the type operator"));
  EXPECT_TRUE(with(R"("type":"file","value":"v")").contains("only inline and operator"));
}

}  // namespace
}  // namespace osb::vault
