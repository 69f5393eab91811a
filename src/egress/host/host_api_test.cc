#include <boost/json/parse.hpp>

#include "egress/host/host_api_fixture.h"

namespace osb::egress::testing {
namespace {

TEST_F(HostApi, ThePolicyIsShownToTheHolderOfTheToken) {
  const auto answered = call(request("GET", "/policy"));
  EXPECT_EQ(answered.status, 200);
  EXPECT_TRUE(answered.has("Content-Type: application/json"));
  EXPECT_TRUE(answered.body.ends_with("\n"));
  const auto value = boost::json::parse(answered.body);
  EXPECT_EQ(value.at("mode"), "enforcing");
  EXPECT_EQ(value.at("enforcementMode"), "dns+nft");
  EXPECT_EQ(value.at("policy").at("egress").at(0).at("target"), "*.example.com");
  EXPECT_EQ(value.at("policy").at("defaultAction"), "deny");
}

TEST_F(HostApi, WithoutTheTokenEverythingButHealthIsRefused) {
  for (const char* token : {"", "token-of-b", "token-of-", "token-of-aa"}) {
    for (const char* method : {"GET", "PUT", "BREW"}) {
      const auto refused = call(request(method, "/policy", "", token));
      EXPECT_EQ(refused.status, 401) << token;
      EXPECT_EQ(refused.body, "unauthorized\n");
      EXPECT_TRUE(refused.has("Content-Type: text/plain; charset=utf-8"));
      EXPECT_TRUE(refused.has("X-Content-Type-Options: nosniff"));
    }
    EXPECT_EQ(call(request("GET", "/decisions", "", token)).status, 401);
    const auto health = call(request("GET", "/healthz", "", token));
    EXPECT_EQ(health.status, 200);
    EXPECT_EQ(health.body, "ok");
  }
}

TEST_F(HostApi, OtherRoutesAndMethodsAreRefusedAsTheContractSays) {
  EXPECT_EQ(call(request("GET", "/policy/")).status, 404);
  EXPECT_EQ(call(request("GET", "/")).status, 404);
  EXPECT_EQ(call(request("GET", "/credential-vault")).status, 404) << "there is none";
  EXPECT_EQ(call(request("POST", "/credential-vault", "{}")).status, 412) << "its connections are not intercepted";
  const auto method = call(request("OPTIONS", "/policy"));
  EXPECT_EQ(method.status, 405);
  EXPECT_TRUE(method.has("Allow: GET, POST, PUT, PATCH, DELETE"));
}

TEST_F(HostApi, AChangeIsInForceWhenItIsAnswered) {
  auto waiting = begin(request("PATCH", "/policy", R"([{"action":"deny","target":"bad.example.com"}])"));
  const auto set = enforce();
  EXPECT_EQ(set.id, "a");
  EXPECT_EQ(set.revision, 7u);
  EXPECT_EQ(set.policy.at("egress").as_array().size(), 2u);
  const auto answered = finish(*waiting);
  EXPECT_EQ(answered.status, 200) << answered.body;
  const auto value = boost::json::parse(answered.body);
  EXPECT_EQ(value.at("enforcementMode"), "dns+nft");
  EXPECT_FALSE(value.as_object().contains("policy"));
  const UniqueFd socket = socket_of("127.0.0.2");
  ask(socket, "bad.example.com");
  EXPECT_EQ(answer(socket).rcode, 3);
}

TEST_F(HostApi, AChangeThatCannotBeEnforcedChangesNothingAndSaysSo) {
  auto waiting = begin(request("PUT", "/policy", R"({"defaultAction":"allow"})"));
  const auto set = expect<link::SetPolicy>();
  send(link::Answer{set.seq, 0, link::Answer::Problem::Internal, "nftables: no memory"});
  const auto answered = finish(*waiting);
  EXPECT_EQ(answered.status, 500);
  EXPECT_TRUE(answered.body.contains("nftables: no memory"));
  EXPECT_EQ(boost::json::parse(call(request("GET", "/policy")).body).at("policy").at("defaultAction"), "deny");
}

TEST_F(HostApi, ChangesOfOneSandboxWaitForEachOther) {
  auto first = begin(request("PATCH", "/policy", R"([{"action":"allow","target":"one.com"}])"));
  const auto set = expect<link::SetPolicy>();
  auto second = begin(request("PATCH", "/policy", R"([{"action":"allow","target":"two.com"}])"));
  settle();
  send(link::SandboxPolicy{"a", *parse_ip_address("127.0.0.2"), 8, set.policy, "token-of-a", false});
  send(link::Answer{set.seq, 8, link::Answer::Problem::None, ""});
  EXPECT_EQ(finish(*first).status, 200);
  const auto next = enforce();
  EXPECT_EQ(next.revision, 8u);
  EXPECT_EQ(next.policy.at("egress").as_array().size(), 3u);
  EXPECT_EQ(finish(*second).status, 200);
}

TEST_F(HostApi, AnEmptyBodyDeniesEverything) {
  auto waiting = begin(request("PUT", "/policy", "  \n"));
  (void)enforce();
  const auto value = boost::json::parse(finish(*waiting).body);
  EXPECT_EQ(value.at("mode"), "deny_all");
  EXPECT_FALSE(value.as_object().contains("enforcementMode"));
  EXPECT_TRUE(value.as_object().contains("reason"));
}

TEST_F(HostApi, WrongBodiesAreRefusedWithoutAskingForEnforcement) {
  struct {
    const char* why;
    std::string text;
    int status;
  } const rows[] = {
      {"no JSON", request("PUT", "/policy", "{"), 400},
      {"unknown default", request("PUT", "/policy", R"({"defaultAction":"block"})"), 400},
      {"bare star", request("PATCH", "/policy", R"([{"action":"allow","target":"*"}])"), 400},
      {"empty PATCH", request("PATCH", "/policy", ""), 400},
      {"empty list", request("DELETE", "/policy", "[]"), 400},
      {"too long", request("PUT", "/policy", std::string((1 << 20) + 1, ' ')), 413},
      {"too many rules",
       request("PUT", "/policy",
               [] {
                 std::string rules;
                 for (int i = 0; i < 4097; ++i) {
                   rules += (i > 0 ? "," : "") + std::string(R"({"target":"n)") + std::to_string(i) + R"(.com"})";
                 }
                 return R"({"egress":[)" + rules + "]}";
               }()),
       413},
  };
  for (const auto& row : rows) {
    const auto answered = call(row.text);
    EXPECT_EQ(answered.status, row.status) << row.why << ": " << answered.body;
    EXPECT_TRUE(answered.has("Content-Type: text/plain; charset=utf-8")) << row.why;
  }
  const auto nothing = call(request("DELETE", "/policy", R"(["unknown.com"])"));
  EXPECT_EQ(nothing.status, 200);
  EXPECT_TRUE(nothing.body.contains("no matching targets found"));
}

TEST_F(HostApi, DecisionsAreListedWithTheirRulesAndAddresses) {
  server_.set("www.example.com", RecordType::A, {a("www.example.com", "93.184.216.34")});
  const UniqueFd socket = socket_of("127.0.0.2");
  for (int i = 0; i < 2; ++i) {
    ask(socket, "evil.org");
    (void)answer(socket);
  }
  ask(socket, "www.example.com");
  (void)grant();
  (void)answer(socket);
  const auto list = boost::json::parse(call(request("GET", "/decisions")).body).at("decisions").as_array();
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].at("name"), "evil.org");
  EXPECT_EQ(list[0].at("verdict"), "deny");
  EXPECT_EQ(list[0].at("count"), 2);
  EXPECT_EQ(list[0].at("rule"), "");
  EXPECT_EQ(list[1].at("rule"), "*.example.com");
  EXPECT_EQ(list[1].at("addresses").at(0), "93.184.216.34");
}

TEST_F(HostApi, DecisionsAreFollowedLiveUntilTheSandboxGoes) {
  auto stream = begin(request("GET", "/decisions?follow=true"));
  std::string seen;
  std::array<char, 4096> buffer;
  const auto read_until = [&](std::string_view text) {
    while (!seen.contains(text)) {
      const auto got = await(io_, stream->read_some(buffer));
      ASSERT_TRUE(got && *got > 0) << seen;
      seen.append(buffer.data(), *got);
    }
  };
  read_until("text/event-stream");
  const UniqueFd socket = socket_of("127.0.0.2");
  ask(socket, "evil.org");
  read_until(R"("name":"evil.org")");
  send(link::SandboxGone{"a"});
  for (;;) {
    const auto got = await(io_, stream->read_some(buffer));
    if (!got || *got == 0) break;
  }
}

TEST_F(HostApi, TheTokenOfOneSandboxOpensNoOther) {
  add_sandbox("b", "127.0.0.3", kAllowExample);
  EXPECT_EQ(call(request("GET", "/policy"), "b").status, 401);
  EXPECT_EQ(call(request("GET", "/policy"), "unknown").status, 401);
}

}  // namespace
}  // namespace osb::egress::testing
