#include "api/egress_environment.h"

#include <gtest/gtest.h>

namespace osb::api {
namespace {

using Environment = std::map<std::string, std::string>;

TEST(EgressEnvironment, TheServersOwnNamesAreReserved) {
  for (const char* name : {"RULES", "MODE", "TOKEN", "SANDBOX_ID", "UPSTREAM_PROXY", "UPSTREAM_PROXY_AUTH",
                           "MITMPROXY_UPSTREAM_EXTRA_CA", "HTTP_ADDR", "MAX_RULES", ""}) {
    EXPECT_TRUE(is_reserved_egress_name("OPENSANDBOX_EGRESS_" + std::string(name))) << name;
  }
  for (const char* name : {"OPENSANDBOX_EGRESS_LOG_LEVEL", "OPENSANDBOX_EGRESS_DENY_WEBHOOK", "OPENSANDBOX_ID", "PATH"})
    EXPECT_FALSE(is_reserved_egress_name(name)) << name;
}

TEST(EgressEnvironment, EachSideGetsItsOwnVariables) {
  const Environment env = {
      {"A", "1"}, {"OPENSANDBOX_EGRESS_LOG_LEVEL", "debug"}, {"OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT", "true"}};
  EXPECT_EQ(sandbox_environment(env, false), (Environment{{"A", "1"}}));
  EXPECT_EQ(sandbox_environment(env, true),
            (Environment{{"A", "1"}, {"OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT", "true"}}));
  EXPECT_EQ(egress_environment(env), (Environment{{"OPENSANDBOX_EGRESS_LOG_LEVEL", "debug"},
                                                  {"OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT", "true"}}));
}

TEST(EgressEnvironment, NamesThatReachNobodyAreTold) {
  const Environment env = {
      {"A", "1"}, {"OPENSANDBOX_EGRESS_LOG_LEVEL", "debug"}, {"OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT", "true"}};
  EXPECT_EQ(dropped_egress_names(env, false, true),
            "OPENSANDBOX_EGRESS_LOG_LEVEL,OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT");
  EXPECT_EQ(dropped_egress_names(env, true, true), "");
  EXPECT_EQ(dropped_egress_names(env, true, false), "OPENSANDBOX_EGRESS_LOG_LEVEL");
  EXPECT_EQ(dropped_egress_names({{"A", "1"}}, false, false), "");
}

TEST(EgressEnvironment, TruthIsWrittenInFiveWays) {
  for (const char* yes : {"1", " true ", "YES", "y", "On"}) EXPECT_TRUE(is_egress_truthy(yes)) << yes;
  for (const char* no : {"", "0", "false", "t", "enable"}) EXPECT_FALSE(is_egress_truthy(no)) << no;
}

}  // namespace
}  // namespace osb::api
