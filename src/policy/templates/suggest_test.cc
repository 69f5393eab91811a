#include "policy/templates/suggest.h"

#include <gtest/gtest.h>

#include "policy/matcher.h"
#include "policy/templates/compile.h"

namespace osb::policy {
namespace {

// "capabilities | rules | left out"
std::string shown(const std::vector<Asked>& asked) {
  const Suggestion all = suggest(asked, Catalogue::builtin());
  std::string out;
  for (const auto* list : {&all.capabilities, &all.rules, &all.left_out}) {
    if (list != &all.capabilities) out += " |";
    for (const auto& item : *list) out += (out.empty() ? "" : " ") + item.target + ":" + std::to_string(item.count);
  }
  return out;
}

TEST(SuggestTemplate, IsTheSmallestThatAllowsEverything) {
  const struct {
    const char* why;
    std::vector<Asked> asked;
    const char* want;
  } rows[] = {
      {"nothing asked", {}, " | |"},
      {"one capability for all its names", {{"pypi.org", 2}, {"files.pythonhosted.org", 3}}, "pypi:5 | |"},
      {"the narrowest of those that cover equally many", {{"github.com", 1}}, "github:1 | |"},
      {"one wide capability instead of two", {{"github.com"}, {"gitlab.com"}}, "git:2 | |"},
      {"case and last dot do not count", {{"PyPI.org."}, {"pypi.org"}}, "pypi:2 | |"},
      {"two names of one parent stay two rules",
       {{"a.example.com"}, {"b.example.com"}},
       " | a.example.com:1 b.example.com:1 |"},
      {"three names of one parent become a wildcard",
       {{"a.example.com"}, {"b.example.com"}, {"c.example.com"}, {"x.y.example.com"}, {"example.com"}},
       " | *.example.com:4 example.com:1 |"},
      {"no wildcard where strangers have names",
       {{"a.github.io"}, {"b.github.io"}, {"c.github.io"}},
       " | a.github.io:1 b.github.io:1 c.github.io:1 |"},
      {"no wildcard below a top-level domain", {{"a.com"}, {"b.com"}, {"c.com"}}, " | a.com:1 b.com:1 c.com:1 |"},
      {"addresses are rules, private ones are left out",
       {{"8.8.8.8", 4}, {"169.254.169.254", 7}, {"10.0.0.1"}, {"2606:4700::1111"}},
       " | 2606:4700::1111:1 8.8.8.8:4 | 10.0.0.1:1 169.254.169.254:7"},
      {"hosts that no rule can match are left out", {{"a..b"}, {"a.example"}}, " | a.example:1 | a..b:1"},
  };
  for (const auto& row : rows) EXPECT_EQ(shown(row.asked), row.want) << row.why;
}

TEST(SuggestTemplate, TextIsATemplateThatAllowsWhatWasAsked) {
  const std::vector<Asked> asked = {
      {"pypi.org", 2}, {"api.example.com", 1}, {"a.example.net"}, {"b.example.net"}, {"c.example.net"},
      {"8.8.8.8"},     {"10.0.0.1"},           {"\"\n"}};
  const std::string text = suggest(asked, Catalogue::builtin()).to_toml("learned");
  const auto read = parse_template(text, "s.toml", "s");
  ASSERT_TRUE(read) << read.error().message << "\n" << text;
  TemplateSet set;
  ASSERT_TRUE(set.add(*read));
  const auto compiled = compile_template(set, "learned");
  ASSERT_TRUE(compiled) << compiled.error().message;
  EXPECT_EQ(compiled->default_action, Action::Deny);
  for (const char* host : {"pypi.org", "api.example.com", "b.example.net", "8.8.8.8"})
    EXPECT_EQ(explain(*compiled, host)->action, Action::Allow) << host;
  EXPECT_EQ(explain(*compiled, "10.0.0.1")->action, Action::Deny);
  EXPECT_EQ(suggest(asked, Catalogue::builtin()).to_toml("x"), suggest(asked, Catalogue::builtin()).to_toml("x"));
}

}  // namespace
}  // namespace osb::policy
