#include "policy/templates/template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace osb::policy {
namespace {

using ::testing::StartsWith;

TEST(PolicyTemplate, ReadsEveryKey) {
  const auto read = parse_template(R"(
name = "python"
description = "for Python"
extends = "base"
capabilities = ["pypi", "github"]
default_action = "allow"
mode = "audit"
[overrides]
egress = [
  {action = "deny", target = "Gist.GitHub.com."},
  {action = "allow", target = "10.0.0.0/8", ports = [443, 80, 443]},
  {action = "allow", ports = [22]},
]
)",
                                   "t.toml", "t");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->name, "python");
  EXPECT_EQ(read->description, "for Python");
  EXPECT_EQ(read->extends->name, "base");
  EXPECT_EQ(read->extends->place, (TomlPlace{4, 11}));
  ASSERT_EQ(read->capabilities.size(), 2U);
  EXPECT_EQ(read->capabilities[1].place, (TomlPlace{5, 25}));
  EXPECT_EQ(read->default_action, Action::Allow);
  EXPECT_TRUE(read->audit);
  ASSERT_EQ(read->overrides.size(), 3U);
  EXPECT_EQ(read->overrides[0].rule.text, "Gist.GitHub.com");
  EXPECT_EQ(read->overrides[0].place, (TomlPlace{10, 3}));
  EXPECT_EQ(read->overrides[1].rule.ports, (std::vector<std::uint16_t>{80, 443}));
  EXPECT_TRUE(std::holds_alternative<AnyAddress>(read->overrides[2].rule.target));
}

TEST(PolicyTemplate, EmptyFileHasTheFilesNameAndIsEnforced) {
  const auto read = parse_template("", "t.toml", "t");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->name, "t");
  EXPECT_FALSE(read->audit);
  EXPECT_FALSE(read->default_action);
}

TEST(PolicyTemplate, RefusalsNameThePlace) {
  const std::string rule = "[overrides]\negress = [";
  const struct {
    std::string text;
    const char* want;
  } rows[] = {
      {"name = 'A'", "t.toml:1:8: name: \"A\": a name has"},
      {"name = ''", "t.toml:1:8: name: "},
      {"name = 1", "t.toml:1:8: name: expected a string"},
      {"capabilites = []", "t.toml:1:1: unknown key \"capabilites\"; did you mean capabilities?"},
      {"capabilities = 'git'", "t.toml:1:16: capabilities: expected an array of names of capabilities"},
      {"\n default_action = 'permit'", "t.toml:2:19: default_action: \"permit\" is neither allow nor deny"},
      {"default_action = true", "t.toml:1:18: default_action: expected a string"},
      {"mode = 'learn'", "t.toml:1:8: mode: \"learn\" is neither enforce nor audit"},
      {"extends = ['a']", "t.toml:1:11: extends: expected a string"},
      {"overrides = 3", "t.toml:1:13: overrides: expected a table"},
      {"[override]", "t.toml:1:2: unknown key \"override\"; did you mean overrides?"},
      {"[overrides]\negres = []", "t.toml:2:1: unknown key \"egres\"; did you mean egress?"},
      {rule + "{target = 'a.com'}]", "t.toml:2:11: action: required"},
      {rule + "{action = 'allow'}]", "t.toml:2:11: target: required; a rule without one needs ports"},
      {rule + "{action = 'allow', target = '*'}]", "t.toml:2:39: target: \"*\": "},
      {rule + "{action = 'allow', target = ' '}]", "t.toml:2:39: target: \" \": "},
      {rule + "{action = 'allow', target = 'a.com', port = 1}]",
       "t.toml:2:48: unknown key \"port\"; did you mean ports?"},
      {rule + "{action = 'allow', target = 'a.com', ports = [1]}]", "t.toml:2:56: ports: only allowed for addresses"},
      {rule + "{action = 'allow', ports = [0]}]", "t.toml:2:39: ports: a port is"},
      {rule + "{action = 'allow', ports = ['x']}]", "t.toml:2:39: ports: expected an array of ports"},
      {rule + "'a.com']", "t.toml:2:11: egress: expected an array of rules"},
      {"a = ", "t.toml:1:"},
  };
  for (const auto& row : rows) {
    const auto read = parse_template(row.text, "t.toml", "t");
    ASSERT_FALSE(read) << row.text;
    EXPECT_EQ(read.error().code, Code::InvalidRequest);
    EXPECT_THAT(read.error().message, StartsWith(row.want)) << row.text;
  }
}

}  // namespace
}  // namespace osb::policy
