#include "execd/path/path.h"

#include <gtest/gtest.h>

namespace osb::execd {
namespace {

const Environment kEnv = {{"HOME", "/home/ann"}, {"DIR", "/data"}, {"EMPTY", ""}, {"REL", "sub"}, {"A1_b", "x"}};

TEST(ExpandPath, FollowsTheContract) {
  struct {
    const char* why;
    const char* path;
    const char* want;
  } rows[] = {
      {"absolute", "/a/b", "/a/b"},
      {"relative starts at the working directory", "x/y", "/srv/x/y"},
      {"dot is the working directory", ".", "/srv"},
      {"cleaned", "//a/./b//../c/", "/a/c"},
      {"dot-dot stops at the root", "/../../a", "/a"},
      {"home", "~", "/home/ann"},
      {"below home", "~/f", "/home/ann/f"},
      {"another user's home is a plain name", "~bob/f", "/srv/~bob/f"},
      {"tilde in the middle is a plain name", "/a/~/b", "/a/~/b"},
      {"variable", "$DIR/f", "/data/f"},
      {"braces", "/x${REL}y", "/xsuby"},
      {"name ends at a character that no name has", "/$A1_b-z", "/x-z"},
      {"relative variable", "$REL", "/srv/sub"},
      {"empty value", "/a/$EMPTY/b", "/a/b"},
      {"lone dollar stays", "/a$/b$.c/$1", "/a$/b$.c/$1"},
      {"unclosed brace stays", "/${DIR", "/${DIR"},
      {"bytes stay", "/\xff\xfe", "/\xff\xfe"},
      {"root", "/", "/"},
  };
  for (const auto& row : rows) {
    const auto got = expand_path(row.path, kEnv, "/srv");
    ASSERT_TRUE(got) << row.why << ": " << got.error().message;
    EXPECT_EQ(*got, row.want) << row.why;
  }
}

TEST(ExpandPath, RefusesWhatNoFileCanBe) {
  EXPECT_FALSE(expand_path("", kEnv, "/"));
  EXPECT_FALSE(expand_path("/a/$NOPE", kEnv, "/"));
  EXPECT_FALSE(expand_path("${NOPE}", kEnv, "/"));
  EXPECT_FALSE(expand_path("~/x", Environment{}, "/"));
  EXPECT_FALSE(expand_path(std::string_view("/a\0b", 4), kEnv, "/"));
  EXPECT_FALSE(expand_path("/" + std::string(5000, 'a'), kEnv, "/"));
  EXPECT_FALSE(expand_path(std::string(4095, 'a'), kEnv, "/srv"));
  EXPECT_TRUE(expand_path("/" + std::string(4094, 'a'), kEnv, "/"));
}

TEST(ExpandPath, LengthCountsAfterCleaning) {
  std::string path = "/a";
  for (int i = 0; i < 2000; ++i) path += "/./";
  EXPECT_EQ(expand_path(path, kEnv, "/").value(), "/a");
}

TEST(PathParts, SplitsAtTheLastSlash) {
  EXPECT_EQ(parent_of("/a/b"), "/a");
  EXPECT_EQ(parent_of("/a"), "/");
  EXPECT_EQ(parent_of("/"), "/");
  EXPECT_EQ(base_name("/a/b"), "b");
  EXPECT_EQ(base_name("/"), "");
}

}  // namespace
}  // namespace osb::execd
