#include "policy/templates/compile.h"

#include <boost/json/serialize.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace osb::policy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TemplateSet make_set(std::initializer_list<std::pair<const char*, const char*>> files) {
  TemplateSet out;
  out.catalogue = *Catalogue::parse(R"(
[[capability]]
name = "git"
includes = ["hub"]
allow = ["git.example"]
[[capability]]
name = "hub"
allow = ["hub.example", "*.hub.example"]
)",
                                    "c.toml", {});
  for (const auto& [name, text] : files) {
    auto one = parse_template(text, std::string(name) + ".toml", name);
    EXPECT_TRUE(one) << one.error().message;
    EXPECT_TRUE(out.add(std::move(*one)));
  }
  return out;
}

std::vector<std::string> shown(const CompiledTemplate& compiled) {
  std::vector<std::string> out;
  for (const auto& [rule, origin] : compiled.rules)
    out.push_back(std::string(to_string(rule.action)) + " " + rule.text + ": " + origin.text());
  return out;
}

std::string refusal(const TemplateSet& set, std::string_view name) {
  const auto compiled = compile_template(set, name);
  return compiled ? "compiled" : compiled.error().message;
}

TEST(CompileTemplate, OverridesComeBeforeCapabilitiesAndChildrenBeforeParents) {
  const TemplateSet set = make_set({{"base", "[overrides]\negress = [{action='deny', target='x.hub.example'}]"},
                                    {"child",
                                     "extends = 'base'\ncapabilities = ['git']\n[overrides]\n"
                                     "egress = [{action='allow', target='y.hub.example'}]"}});
  const auto compiled = compile_template(set, "child");
  ASSERT_TRUE(compiled) << compiled.error().message;
  EXPECT_THAT(shown(*compiled),
              ElementsAre("allow y.hub.example: override of template child, child.toml:4:11",
                          "deny x.hub.example: override of template base, base.toml:2:11",
                          "allow git.example: capability git of template child, child.toml:2:17",
                          "allow hub.example: capability git (hub) of template child, child.toml:2:17",
                          "allow *.hub.example: capability git (hub) of template child, child.toml:2:17"));
  EXPECT_THAT(compiled->extends, ElementsAre("base"));
  EXPECT_EQ(compiled->policy().egress.size(), 5U);
}

TEST(CompileTemplate, FirstOfEqualRulesIsKept) {
  const TemplateSet set =
      make_set({{"base", "capabilities = ['hub']"},
                {"child", "extends = 'base'\n[overrides]\negress = [{action='deny', target='HUB.example'}]"}});
  EXPECT_THAT(shown(*compile_template(set, "child")),
              ElementsAre("deny HUB.example: override of template child, child.toml:3:11",
                          "allow *.hub.example: capability hub of template base, base.toml:1:17"));
}

TEST(CompileTemplate, NearestDefaultActionCountsAndAuditIsNotInherited) {
  const TemplateSet set = make_set({{"a", "default_action = 'allow'\nmode = 'audit'"},
                                    {"b", "extends = 'a'"},
                                    {"c", "extends = 'b'\ndefault_action = 'deny'"},
                                    {"d", ""}});
  EXPECT_EQ(compile_template(set, "b")->default_action, Action::Allow);
  EXPECT_EQ(compile_template(set, "b")->default_origin, "a");
  EXPECT_FALSE(compile_template(set, "b")->audit);
  EXPECT_TRUE(compile_template(set, "a")->audit);
  EXPECT_EQ(compile_template(set, "c")->default_action, Action::Deny);
  EXPECT_EQ(compile_template(set, "d")->default_action, Action::Deny);
  EXPECT_EQ(compile_template(set, "d")->default_origin, "");
}

TEST(CompileTemplate, RefusesCyclesAndUnknownNamesWithTheirPlace) {
  const TemplateSet set = make_set({{"a", "extends = 'b'"},
                                    {"b", "\nextends = 'a'"},
                                    {"self", "extends = 'self'"},
                                    {"lost", "extends = 'slef'"},
                                    {"odd", "capabilities = ['git', 'hbu']"},
                                    {"child-of-odd", "extends = 'odd'"}});
  EXPECT_EQ(refusal(set, "a"), "b.toml:2:11: extends: template b extends itself through a");
  EXPECT_EQ(refusal(set, "self"), "self.toml:1:11: extends: template self extends itself through self");
  EXPECT_EQ(refusal(set, "lost"), "lost.toml:1:11: extends: unknown template \"slef\"; did you mean self?");
  EXPECT_EQ(refusal(set, "odd"), "odd.toml:1:24: capabilities: unknown capability \"hbu\"; did you mean hub?");
  EXPECT_THAT(refusal(set, "child-of-odd"), HasSubstr("odd.toml:1:24: "));
  EXPECT_EQ(compile_template(set, "lots").error().code, Code::NotFound);
  EXPECT_THAT(refusal(set, "lots"), HasSubstr("did you mean lost?"));
}

TEST(CompileTemplate, TakenNameAndTooManyRulesAreRefused) {
  TemplateSet set = make_set({{"a", ""}});
  const auto again = set.add(*parse_template("name = 'a'", "other.toml", "x"));
  EXPECT_EQ(again.error().message, "other.toml: the name a is taken by a.toml; give one of them another");
  std::string text = "[overrides]\negress = [\n";
  for (int i = 0; i < 4097; ++i) text += "{action='allow', target='h" + std::to_string(i) + ".example'},\n";
  ASSERT_TRUE(set.add(*parse_template(text + "]", "large.toml", "large")));
  EXPECT_EQ(compile_template(set, "large").error().code, Code::TooLarge);
}

TEST(ExplainTemplate, NamesTheRuleAndItsOrigin) {
  const TemplateSet set = make_set({{"t",
                                     "capabilities = ['git']\n[overrides]\negress = [\n"
                                     "{action='deny', target='evil.hub.example'},\n"
                                     "{action='allow', target='10.1.0.0/16', ports=[443]},\n"
                                     "{action='deny', target='9.9.9.0/24'}]"}});
  const auto compiled = compile_template(set, "t");
  ASSERT_TRUE(compiled) << compiled.error().message;
  const struct {
    const char* host;
    std::optional<std::uint16_t> port;
    Action action;
    const char* because;
  } rows[] = {
      {"A.hub.example.", {}, Action::Allow, "the rule allow *.hub.example decides: capability git (hub) of template t"},
      {"evil.hub.example",
       {},
       Action::Deny,
       "the rule deny evil.hub.example decides: override of template t, t.toml:4:1"},
      {"example.com", {}, Action::Deny, "no rule matches, and the default is deny"},
      {"10.1.2.3", 443, Action::Allow, "the rule allow 10.1.0.0/16 port 443 decides"},
      {"10.1.2.3", 80, Action::Deny, "it is no address of the internet"},
      {"10.1.2.3", {}, Action::Deny, "it is no address of the internet"},
      {"9.9.9.9", {}, Action::Deny, "the rule deny 9.9.9.0/24 decides"},
      {"8.8.8.8", {}, Action::Deny, "no rule matches"},
  };
  for (const auto& row : rows) {
    const auto told = explain(*compiled, row.host, row.port);
    ASSERT_TRUE(told) << row.host;
    EXPECT_EQ(told->action, row.action) << row.host;
    EXPECT_THAT(told->because, HasSubstr(row.because)) << row.host;
  }
  EXPECT_THAT(explain(*compiled, "a b").error().message, HasSubstr("host \"a b\": only letters"));
}

TEST(ExplainTemplate, PrivateAddressesStayClosedUnderADefaultOfAllow) {
  const TemplateSet set = make_set({{"t", "default_action = 'allow'"}});
  const auto compiled = compile_template(set, "t");
  EXPECT_EQ(explain(*compiled, "169.254.169.254")->action, Action::Deny);
  const auto open = explain(*compiled, "8.8.8.8");
  EXPECT_EQ(open->action, Action::Allow);
  EXPECT_EQ(open->because, "no rule matches, and default_action of template t is allow");
}

TEST(CompiledTemplateJson, HasRulesWithOrigins) {
  const TemplateSet set = make_set({{"t", "description = 'd'\ncapabilities = ['git']"}});
  const auto compiled = compile_template(set, "t");
  EXPECT_EQ(api::json::serialize(to_json(*compiled, false)),
            R"({"name":"t","description":"d","source":"t.toml","mode":"enforce","extends":[],"capabilities":["git"],)"
            R"("defaultAction":"deny","ruleCount":3})");
  const std::string full = api::json::serialize(to_json(*compiled, true));
  EXPECT_THAT(full,
              HasSubstr(R"({"action":"allow","target":"hub.example","origin":{"kind":"capability","template":"t",)"
                        R"("capability":"git","part":"hub","source":"t.toml","line":2,"column":17}})"));
  EXPECT_THAT(full, HasSubstr(R"("networkPolicy":{"egress":[{"action":"allow","target":"git.example"})"));
  EXPECT_EQ(api::json::serialize(to_json(*explain(*compiled, "x.example"), *compiled)),
            R"({"template":"t","mode":"enforce","host":"x.example","action":"deny",)"
            R"("because":"no rule matches, and the default is deny"})");
}

}  // namespace
}  // namespace osb::policy
