#include "policy/templates/toml_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace osb::policy {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(TomlTree, KeepsPlacesAndOrder) {
  const auto file = TomlFile::parse("b = 'x'\n[a]\nlist = [1,\n  2]\n", "f.toml");
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_EQ(file->root().members.size(), 2U);
  EXPECT_EQ(file->root().members[0].key, "b");
  const TomlValue* list = file->root().find("a")->find("list");
  ASSERT_NE(list, nullptr);
  EXPECT_EQ(list->items[1].number, 2);
  EXPECT_EQ(list->items[1].place, (TomlPlace{4, 3}));
  EXPECT_EQ(file->root().find("nothing"), nullptr);
}

TEST(TomlTree, RefusesFilesThatWouldExhaustTheStack) {
  const auto deep_key = TomlFile::parse(std::string(300'000, 'a') + ".b = 1", "f.toml");
  EXPECT_THAT(deep_key.error().message, HasSubstr("f.toml:1:1: the line has more than 4096 bytes"));
  std::string dots = "x = 1\na";
  for (int i = 0; i < 2000; ++i) dots += ".a";
  EXPECT_THAT(TomlFile::parse(dots + " = 1", "f.toml").error().message, HasSubstr("deeper than 16"));
  const auto large = TomlFile::parse(std::string((1 << 20) + 1, '\n'), "f.toml");
  EXPECT_EQ(large.error().code, Code::TooLarge);
}

TEST(TomlTree, ErrorsOfTheSyntaxNameThePlace) {
  EXPECT_THAT(TomlFile::parse("a = 1\nb = = 2\n", "f.toml").error().message,
              StartsWith("f.toml:2:5: not valid TOML: "));
}

TEST(TomlTree, LettersOfAllScriptsAreTakenInTextAndRefusedInKeys) {
  const auto file = TomlFile::parse("# \xc3\xa4\na = '\xe3\x80\x81\xc3\xa4'", "f.toml");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->root().find("a")->text, "\xe3\x80\x81\xc3\xa4");
  EXPECT_FALSE(TomlFile::parse("a\xc3\xa4 = 1", "f.toml"));
}

// The library asserts on these before it reports them.
TEST(TomlTree, WrongFilesThatTheLibraryAssertsOnAreErrors) {
  for (const char* text : {"[{a]", "[a.{]", "[[{a]]"}) {
    const auto file = TomlFile::parse(text, "f.toml");
    ASSERT_FALSE(file) << text;
    EXPECT_THAT(file.error().message, StartsWith("f.toml:1:")) << text;
  }
}

TEST(TomlTree, UnknownKeysNameTheNearestOne) {
  const auto file = TomlFile::parse("a = 1\n\ncapabilites = []\n", "f.toml");
  const auto checked = file->check_keys(file->root(), {"a", "capabilities"});
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().message, "f.toml:3:1: unknown key \"capabilites\"; did you mean capabilities?");
  EXPECT_EQ(did_you_mean("zzz", {"git"}), "");
  EXPECT_EQ(did_you_mean("gti", {"npm", "git"}), "; did you mean git?");
}

}  // namespace
}  // namespace osb::policy
