#include "api/egress_link.h"

#include <gtest/gtest.h>

namespace osb::api::egress {
namespace {

template <typename T>
T there_and_back(const T& message) {
  const auto again = decode_to_egress(encode(ToEgress(message)));
  EXPECT_TRUE(again) << again.error().message;
  EXPECT_TRUE(again && std::holds_alternative<T>(*again));
  return again ? std::get<T>(*again) : T{};
}

TEST(EgressLink, MessagesToTheEgressProcessSurviveTheWay) {
  const Hello hello = there_and_back(Hello{.resolvers = {"10.0.0.2:53", "[fd00::1]:53"},
                                           .max_addresses = 128,
                                           .otlp_endpoint = "http://c:4318",
                                           .otlp_interval = std::chrono::milliseconds(20),
                                           .deny_webhook = "http://h/",
                                           .log_names = true});
  EXPECT_EQ(hello.resolvers, (std::vector<std::string>{"10.0.0.2:53", "[fd00::1]:53"}));
  EXPECT_EQ(hello.max_addresses, 128u);
  EXPECT_EQ(hello.otlp_endpoint, "http://c:4318");
  EXPECT_EQ(hello.otlp_interval, std::chrono::milliseconds(20));
  EXPECT_EQ(hello.deny_webhook, "http://h/");
  EXPECT_TRUE(hello.log_names);

  const Interception keys = there_and_back(Interception{"key", "trust", true, {"a.com=10.0.0.7"}});
  EXPECT_EQ(keys.authority + keys.trust, "keytrust");
  EXPECT_TRUE(keys.scrub_bodies);
  EXPECT_EQ(keys.pins, std::vector<std::string>{"a.com=10.0.0.7"});

  const OverlayTexts overlays = there_and_back(OverlayTexts{"a.com\n", ""});
  EXPECT_EQ(overlays.deny, "a.com\n");
  EXPECT_EQ(overlays.allow, "");

  SandboxPolicy sandbox{"a-1", *parse_ip_address("10.88.0.7"), 3, {{"defaultAction", "deny"}}, "secret", true};
  const SandboxPolicy again = there_and_back(sandbox);
  EXPECT_EQ(again.id, "a-1");
  EXPECT_EQ(again.address, sandbox.address);
  EXPECT_EQ(again.revision, 3u);
  EXPECT_EQ(again.policy, sandbox.policy);
  EXPECT_EQ(again.token, "secret");
  EXPECT_TRUE(again.audit);

  EXPECT_FALSE(again.intercept);
  EXPECT_FALSE(again.vault);
  sandbox.intercept = true;
  sandbox.vault = {{"revision", 3}};
  EXPECT_TRUE(there_and_back(sandbox).intercept);
  EXPECT_EQ(there_and_back(sandbox).vault, sandbox.vault);
  EXPECT_EQ(there_and_back(Interception{"key", "list"}).authority, "key");
  EXPECT_EQ(there_and_back(Interception{"key", "list"}).trust, "list");

  EXPECT_EQ(there_and_back(SandboxGone{"a-1"}).id, "a-1");
  EXPECT_EQ(there_and_back(Connection{"a-1"}).id, "a-1");
}

TEST(EgressLink, AnswersCarryARevisionOrAProblem) {
  const Answer good = there_and_back(Answer{7, 4, Answer::Problem::None, ""});
  EXPECT_TRUE(good.ok());
  EXPECT_EQ(good.seq, 7u);
  EXPECT_EQ(good.revision, 4u);
  using enum Answer::Problem;
  for (const auto problem : {Stale, Refused, Limit, Internal}) {
    const Answer bad = there_and_back(Answer{8, 0, problem, "why"});
    EXPECT_EQ(bad.problem, problem);
    EXPECT_EQ(bad.message, "why");
  }
}

TEST(EgressLink, RequestsOfTheEgressProcessSurviveTheWay) {
  const OpenAddresses open{
      1, "a", 2, {{*parse_ip_address("1.2.3.4"), 70, "a.com"}, {*parse_ip_address("2001:db8::1"), 360}}};
  const auto opened = decode_to_sandboxd(encode(ToSandboxd(open)));
  ASSERT_TRUE(opened && std::holds_alternative<OpenAddresses>(*opened));
  EXPECT_EQ(std::get<OpenAddresses>(*opened).addresses, open.addresses);
  EXPECT_EQ(std::get<OpenAddresses>(*opened).revision, 2u);

  const auto set = decode_to_sandboxd(encode(ToSandboxd(SetPolicy{9, "a", 2, {{"egress", nullptr}}})));
  ASSERT_TRUE(set && std::holds_alternative<SetPolicy>(*set));
  EXPECT_EQ(std::get<SetPolicy>(*set).seq, 9u);

  for (const std::optional<boost::json::object>& vault :
       {std::optional<boost::json::object>(), std::optional<boost::json::object>({{"revision", 1}})}) {
    const auto stored = decode_to_sandboxd(encode(ToSandboxd(SetVault{9, "a", vault})));
    ASSERT_TRUE(stored && std::holds_alternative<SetVault>(*stored));
    EXPECT_EQ(std::get<SetVault>(*stored).vault, vault);
  }

  const auto ready = decode_to_sandboxd(encode(ToSandboxd(Ready{})));
  ASSERT_TRUE(ready && std::holds_alternative<Ready>(*ready));
}

TEST(EgressLink, WrongMessagesAreRefusedAndTheirValuesNotRepeated) {
  struct {
    const char* why;
    const char* text;
  } const rows[] = {
      {"no JSON", "{"},
      {"no object", "[]"},
      {"no type", "{}"},
      {"unknown type", R"({"type":"shutdown"})"},
      {"no address", R"({"type":"sandbox","id":"a","revision":1,"policy":{},"token":"hunter2"})"},
      {"bad address", R"({"type":"sandbox","id":"a","address":"hunter2","revision":1,"policy":{},"token":"hunter2"})"},
      {"policy is no object",
       R"({"type":"sandbox","id":"a","address":"1.1.1.1","revision":1,"policy":[],"token":"hunter2"})"},
      {"empty token", R"({"type":"sandbox","id":"a","address":"1.1.1.1","revision":1,"policy":{},"token":""})"},
      {"negative revision",
       R"({"type":"sandbox","id":"a","address":"1.1.1.1","revision":-1,"policy":{},"token":"hunter2"})"},
      {"overlays without a file", R"({"type":"overlays","deny":""})"},
      {"an answer without anything", R"({"type":"answer","seq":1})"},
      {"an unknown problem", R"({"type":"answer","seq":1,"error":{"code":"fine"}})"},
  };
  for (const auto& row : rows) {
    const auto message = decode_to_egress(row.text);
    ASSERT_FALSE(message) << row.why;
    EXPECT_EQ(message.error().code, Code::InvalidRequest) << row.why;
    EXPECT_FALSE(message.error().message.contains("hunter2")) << row.why;
  }
  EXPECT_FALSE(decode_to_sandboxd(R"({"type":"open","seq":1,"id":"a","revision":1})"));
  EXPECT_FALSE(decode_to_sandboxd(
      R"({"type":"open","seq":1,"id":"a","revision":1,"addresses":[{"address":"1.1.1.1","seconds":4294967296}]})"));
  EXPECT_FALSE(decode_to_sandboxd(R"({"type":"hello","resolvers":[],"maxAddresses":1})"));
}

}  // namespace
}  // namespace osb::api::egress
