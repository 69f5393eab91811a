#include "policy/policy.h"

#include <boost/json/serialize.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace osb::policy {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string shown(std::string_view body) {
  const auto policy = parse_policy(body);
  return policy ? api::json::serialize(to_json(*policy)) : "refused: " + policy.error().message;
}

TEST(PolicyJson, EmptyBodiesDenyEverything) {
  for (const char* body : {"", " \n", "null", "{}", R"({"egress":null,"defaultAction":null})", R"({"egress":[]})"}) {
    EXPECT_EQ(shown(body), R"({"egress":[],"defaultAction":"deny"})") << body;
  }
}

TEST(PolicyJson, ActionsAndKeysAreReadInAnyCase) {
  EXPECT_EQ(shown(R"({"DEFAULTACTION":" Allow ","Egress":[{"Action":"DENY","TARGET":" A.com "},{"target":"b.com."}]})"),
            R"({"egress":[{"action":"deny","target":"A.com"},{"action":"deny","target":"b.com"}],)"
            R"("defaultAction":"allow"})");
}

TEST(PolicyJson, RulesCanHavePorts) {
  EXPECT_EQ(shown(R"({"egress":[{"action":"allow","ports":[443,80,443]},
                                {"action":"deny","target":"10.0.0.0/8","ports":[22]},
                                {"action":"deny","target":"a.com","ports":[]}]})"),
            R"({"egress":[{"action":"allow","ports":[80,443]},{"action":"deny","target":"10.0.0.0/8","ports":[22]},)"
            R"({"action":"deny","target":"a.com"}],"defaultAction":"deny"})");
}

TEST(PolicyJson, RefusalsNameThePlace) {
  const struct {
    const char* body;
    const char* want;
  } rows[] = {
      {"[]", "body: expected an object"},
      {"{", "body: invalid JSON"},
      {R"({"defaultAction":"block"})", "/defaultAction: \"block\" is neither allow nor deny"},
      {R"({"defaultAction":1})", "/defaultAction: expected a string"},
      {R"({"egress":{}})", "/egress: expected an array of rules"},
      {R"({"egress":[1]})", "/egress/0: expected an object"},
      {R"({"egress":[null]})", "/egress/0: expected an object"},
      {R"({"egress":[{"action":"allow","target":"a.com"},{"action":"permit","target":"a"}]})", "/egress/1/action: "},
      {R"({"egress":[{"action":"allow"}]})", "/egress/0/target: required"},
      {R"({"egress":[{"action":"allow","target":" "}]})", "/egress/0/target: blank"},
      {R"({"egress":[{"action":"allow","target":"","ports":[443]}]})", "/egress/0/target: blank"},
      {R"({"egress":[{"action":"allow","target":7}]})", "/egress/0/target: expected a string"},
      {R"({"egress":[{"action":"allow","target":"*"}]})", "/egress/0/target: \"*\": "},
      {R"({"egress":[{"action":"allow","target":"a.com","ports":[443]}]})", "/egress/0/ports: only allowed for"},
      {R"({"egress":[{"action":"allow","ports":443}]})", "/egress/0/ports: expected an array"},
      {R"({"egress":[{"action":"allow","ports":[0]}]})", "/egress/0/ports: a port is"},
      {R"({"egress":[{"action":"allow","ports":[65536]}]})", "/egress/0/ports: a port is"},
      {R"({"egress":[{"action":"allow","ports":["443"]}]})", "/egress/0/ports: a port is"},
      {R"({"egress":[{"action":"allow","ports":[]}]})", "/egress/0/target: required"},
  };
  for (const auto& row : rows) {
    const auto policy = parse_policy(row.body);
    ASSERT_FALSE(policy) << row.body;
    EXPECT_EQ(policy.error().code, Code::InvalidRequest);
    EXPECT_THAT(policy.error().message, StartsWith(row.want)) << row.body;
  }
  std::string ports = "1";
  for (int i = 0; i < 256; ++i) ports += ",1";
  EXPECT_THAT(shown(R"({"egress":[{"action":"allow","ports":[)" + ports + "]}]}"), HasSubstr("at most 256 ports"));
}

TEST(PolicyJson, UnknownKeysAreIgnoredAndMisspeltOnesRefused) {
  EXPECT_EQ(shown(R"({"version":3,"comment":"x","egress":[{"action":"deny","target":"a.com","note":1}]})"),
            R"({"egress":[{"action":"deny","target":"a.com"}],"defaultAction":"deny"})");
  EXPECT_THAT(shown(R"({"egres":[]})"), HasSubstr("did you mean egress?"));
  EXPECT_THAT(shown(R"({"default_action":"deny"})"), HasSubstr("did you mean defaultAction?"));
  EXPECT_THAT(shown(R"({"egress":[{"action":"allow","target":"10.0.0.0/8","port":[1]}]})"),
              StartsWith("refused: /egress/0/port: unknown key, did you mean ports?"));
}

TEST(PolicyJson, ModeFollowsTheUsersPolicy) {
  EXPECT_EQ(mode(*parse_policy("{}")), "deny_all");
  EXPECT_EQ(mode(*parse_policy(R"({"defaultAction":"allow"})")), "allow_all");
  EXPECT_EQ(mode(*parse_policy(R"({"egress":[{"target":"a.com"}]})")), "enforcing");
}

TEST(PolicyJson, StatusLeavesOutEmptyFields) {
  EXPECT_EQ(encode_status({.mode = "deny_all", .reason = "because"}),
            "{\"status\":\"ok\",\"mode\":\"deny_all\",\"reason\":\"because\"}\n");
  const Policy policy;
  EXPECT_EQ(encode_status({.mode = "deny_all", .enforcement_mode = "dns+nft", .policy = &policy}),
            "{\"status\":\"ok\",\"mode\":\"deny_all\",\"enforcementMode\":\"dns+nft\","
            "\"policy\":{\"egress\":[],\"defaultAction\":\"deny\"}}\n");
}

}  // namespace
}  // namespace osb::policy
