#include "cli/egress/rule_text.h"

#include <gtest/gtest.h>

namespace osb::cli {
namespace {

TEST(RuleText, ATargetMayHavePorts) {
  const struct {
    const char *text, *action, *target;
    std::vector<int> ports;
  } rows[] = {
      {"allow=pypi.org", "allow", "pypi.org", {}},
      {" Deny = *.example.com ", "deny", "*.example.com", {}},
      {"allow=10.0.0.7@443, 8443", "allow", "10.0.0.7", {443, 8443}},
      {"deny=@25", "deny", "", {25}},
      {"allow=fd00::/8", "allow", "fd00::/8", {}},
  };
  for (const auto& row : rows) {
    const auto rule = parse_rule(row.text);
    ASSERT_TRUE(rule) << row.text;
    EXPECT_EQ(rule->action, row.action);
    EXPECT_EQ(rule->target, row.target);
    EXPECT_EQ(rule->ports, row.ports);
  }
}

TEST(RuleText, WrongRulesAreRefused) {
  for (const char* text : {"pypi.org", "block=pypi.org", "allow=", "allow=@", "allow=10.0.0.7@", "allow=10.0.0.7@0",
                           "allow=10.0.0.7@80,", "allow=10.0.0.7@http"}) {
    EXPECT_FALSE(parse_rule(text)) << text;
  }
}

}  // namespace
}  // namespace osb::cli
