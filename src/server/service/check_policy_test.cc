#include "server/service/check_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace osb::server {
namespace {

using ::testing::StartsWith;

Result<void> check(const std::string& policy) {
  const auto create = api::decode_create_sandbox(R"({"image":{"uri":"a"},"entrypoint":["a"],"resourceLimits":{},
                                                     "networkPolicy":)" +
                                                 policy + "}");
  if (!create) return Failure(create.error());
  return check_network_policy(*create);
}

TEST(CheckPolicy, PoliciesThatCanBeEnforcedPass) {
  for (const char* policy : {"null", "{}", R"({"defaultAction":"allow"})", R"({"egress":[]})",
                             R"({"egress":[{"action":"allow","target":"*.example.com"},
                                           {"action":"deny","target":"10.0.0.0/8","ports":[22]},
                                           {"action":"allow","ports":[443,80]}]})",
                             R"({"egress":[{"action":"Allow","target":"a.com"}],"comment":"ignored"})"}) {
    const auto ok = check(policy);
    EXPECT_TRUE(ok) << policy << ": " << ok.error().message;
  }
}

TEST(CheckPolicy, FaultsAreNamedByTheirPlace) {
  const struct {
    const char* policy;
    const char* message;
  } rows[] = {
      {R"({"defaultAction":"block"})", "/networkPolicy/defaultAction: "},
      {R"({"egress":[{"action":"permit","target":"a.com"}]})", "/networkPolicy/egress/0/action: "},
      {R"({"egress":[{"action":"allow","target":"*"}]})", "/networkPolicy/egress/0/target: "},
      {R"({"egress":[{"action":"allow","target":"a.com"},{"action":"allow","target":" "}]})",
       "/networkPolicy/egress/1/target: blank"},
      {R"({"egress":[{"action":"allow","target":"a.com","ports":[443]}]})", "/networkPolicy/egress/0/ports: "},
      {R"({"egress":[{"action":"allow","target":"10.0.0.1","port":[443]}]})",
       "/networkPolicy/egress/0/port: unknown key, did you mean ports?"},
      {R"({"egres":[{"action":"allow","target":"a.com"}]})", "/networkPolicy/egres: unknown key"},
  };
  for (const auto& row : rows) {
    const auto refused = check(row.policy);
    ASSERT_FALSE(refused) << row.policy;
    EXPECT_EQ(refused.error().code, Code::InvalidRequest) << row.policy;
    EXPECT_EQ(refused.error().reason, "SANDBOX::INVALID_PARAMETER");
    EXPECT_THAT(refused.error().message, StartsWith(row.message));
  }
}

TEST(CheckPolicy, TooManyRulesAreTooLarge) {
  std::string rules;
  for (int i = 0; i < 5000; ++i) {
    rules += (i == 0 ? "" : ",") + (R"({"action":"allow","target":"h)" + std::to_string(i) + R"(.com"})");
  }
  const auto refused = check(R"({"egress":[)" + rules + "]}");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::TooLarge);
}

}  // namespace
}  // namespace osb::server
