#include "policy/templates/catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/matcher.h"

namespace osb::policy {
namespace {

using ::testing::HasSubstr;

std::string refusal(std::string_view text) {
  const auto catalogue = Catalogue::parse(text, "c.toml", Catalogue::builtin());
  return catalogue ? "taken" : catalogue.error().message;
}

TEST(PolicyCatalogue, BuiltInOneHasTheCapabilitiesThatPeopleName) {
  const Catalogue& all = Catalogue::builtin();
  for (const char* name : {"git", "github", "gitlab", "pypi", "npm", "debian", "ubuntu", "crates", "go", "maven",
                           "docker-hub", "huggingface", "llm.anthropic", "llm.openai", "llm.google"}) {
    ASSERT_NE(all.find(name), nullptr) << name;
    EXPECT_FALSE(all.find(name)->description.empty()) << name;
    EXPECT_FALSE(all.rules(name).empty()) << name;
  }
}

TEST(PolicyCatalogue, BuiltInTargetsAreNamesBelowARegisteredDomain) {
  for (const auto& [name, capability] : Catalogue::builtin().all()) {
    for (const Rule& rule : capability.allow) {
      const auto* target = std::get_if<NameTarget>(&rule.target);
      ASSERT_NE(target, nullptr) << name;
      EXPECT_NE(target->name.find('.'), std::string::npos) << name << ": " << rule.text;
    }
  }
}

TEST(PolicyCatalogue, IncludesGiveTheRulesOfTheirParts) {
  std::set<std::string> owners;
  for (const auto& part : Catalogue::builtin().rules("git")) owners.insert(part.owner->name);
  EXPECT_THAT(owners, ::testing::IsSupersetOf({"github", "gitlab"}));
  EXPECT_TRUE(Catalogue::builtin().rules("no-such").empty());
}

TEST(PolicyCatalogue, OperatorsFileAddsAndReplaces) {
  const auto all = Catalogue::parse(R"(
[[capability]]
name = "intranet"
allow = ["*.corp.example", "10.1.0.0/16"]
[[capability]]
name = "pypi"
includes = ["intranet"]
allow = ["pypi.corp.example"]
)",
                                    "c.toml", Catalogue::builtin());
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(all->rules("pypi").size(), 3U);
  EXPECT_NE(all->find("npm"), nullptr);
  EXPECT_EQ(all->find("pypi")->source, "c.toml");
}

TEST(PolicyCatalogue, RefusalsNameThePlace) {
  const struct {
    const char* text;
    const char* want;
  } rows[] = {
      {"[[capability]]\nallow = ['a.com']", "c.toml:1:1: capability: name is required"},
      {"[[capability]]\nname = 'Git'\nallow = ['a.com']", "c.toml:2:8: \"Git\": a name has"},
      {"[[capability]]\nname = 'a'", "needs allow or includes"},
      {"[[capability]]\nname = 'a'\nallow = ['*']", "c.toml:3:10: \"*\": "},
      {"[[capability]]\nname = 'a'\nallow = 'x'", "c.toml:3:9: allow: expected an array of targets"},
      {"[[capability]]\nname = 'a'\nallow = [1]", "c.toml:3:10: allow: expected an array of targets"},
      {"[[capability]]\nname = 'a'\nalow = ['x']", "c.toml:3:1: unknown key \"alow\"; did you mean allow?"},
      {"[[capability]]\nname = 'a'\nincludes = ['gti']", "c.toml:3:13: unknown capability \"gti\"; did you mean git?"},
      {"[[capability]]\nname = 'a'\nincludes = ['a']", "c.toml:3:13: capability a includes itself through a"},
      {"[[capability]]\nname = 'a'\nincludes = ['b']\n[[capability]]\nname = 'b'\nincludes = ['a']",
       "c.toml:3:13: capability a includes itself through b"},
      {"[[capability]]\nname = 'a'\nallow = ['x.y']\n[[capability]]\nname = 'a'\nallow = ['x.y']",
       "capability a is defined twice"},
      {"[capability]\nname = 'a'", "expected an array of tables"},
      {"name = 'a'", "c.toml:1:1: unknown key \"name\""},
  };
  for (const auto& row : rows) EXPECT_THAT(refusal(row.text), HasSubstr(row.want)) << row.text;
}

}  // namespace
}  // namespace osb::policy
