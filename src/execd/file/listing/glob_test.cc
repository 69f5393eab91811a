#include "execd/file/listing/glob.h"

#include <string>

#include <gtest/gtest.h>

namespace osb::execd {
namespace {

bool matches(std::string_view pattern, std::string_view text) {
  auto glob = Glob::compile(pattern);
  EXPECT_TRUE(glob) << pattern << ": " << glob.error().message;
  return glob && glob->matches(text);
}

TEST(Glob, MatchesAsTheContractSays) {
  struct {
    const char* pattern;
    const char* text;
    bool want;
  } rows[] = {
      {"**", "a.txt", true},
      {"*", "", true},
      {"*", "a/b", false},
      {"*", ".hidden", true},
      {"", "", true},
      {"", "a", false},
      {"*.py", "x.py", true},
      {"*.py", "x.pyc", false},
      {"**/*.py", "x.py", true},
      {"**/*.py", "a/b/x.py", true},
      {"**/x", "ax", false},
      {"a/**/z", "a/z", true},
      {"a/**/z", "a/b/c/z", true},
      {"a/**", "a/b/c", true},
      {"a**", "abc", true},
      {"a**", "a/c", false},
      {"src/*.py", "x.py", false},
      {"../*", "passwd", false},
      {"?", "ä", true},
      {"?", "ab", false},
      {"?", "/", false},
      {"?", "\xff", true},
      {"\xff", "\xff", true},
      {"\xff", "\xfe", false},
      {"[abc]x", "bx", true},
      {"[abc]x", "dx", false},
      {"[a-cx-z]", "y", true},
      {"[!a-c]", "d", true},
      {"[^a-c]", "b", false},
      {"[ä-ü]", "ö", true},
      {"[\\]]", "]", true},
      {"[a-]", "-", true},
      {"[!x]", "/", false},
      {"*.{py,txt}", "a.txt", true},
      {"*.{py,txt}", "a.md", false},
      {"{a,b{c,d}}e", "bde", true},
      {"{a,b{c,d}}e", "be", false},
      {"x{,y}", "x", true},
      {"x{,y}", "xy", true},
      {"\\*", "*", true},
      {"\\*", "a", false},
      {"\\!x", "!x", true},
      {"!(*.py)", "a.txt", true},
      {"!(*.py)", "a.py", false},
      {"a!(b)", "ac", true},
      {"a!(b)", "ab", false},
      {"a!(b)c", "abc", false},
      {"a!(b)c", "azz", true},
      {"!({a,b}*)", "cat", true},
      {"!({a,b}*)", "bat", false},
      {"a,b", "a,b", true},
      {"a)b", "a)b", true},
      {"a}", "a}", true},
  };
  for (const auto& row : rows) EXPECT_EQ(matches(row.pattern, row.text), row.want) << row.pattern << " on " << row.text;
}

TEST(Glob, RefusesMalformedPatterns) {
  for (const char* pattern : {"[", "[]", "[!]", "[a", "{a", "{a,{b}", "a!", "!x", "!(a", "a\\", "[a\\", "x{!}"}) {
    EXPECT_FALSE(Glob::compile(pattern)) << pattern;
  }
  EXPECT_FALSE(Glob::compile(std::string(Glob::kMaxPattern + 1, 'a')));
  EXPECT_FALSE(Glob::compile(std::string(500, '{') + std::string(500, '}')));
}

// A backtracking matcher would still be busy tomorrow.
TEST(Glob, HostilePatternsStayLinear) {
  std::string stars;
  for (int i = 0; i < 1000; ++i) stars += "*a";
  EXPECT_FALSE(matches(stars + "b", std::string(255, 'a')));
  std::string forks;
  for (int i = 0; i < 500; ++i) forks += "{a,aa}";
  EXPECT_FALSE(matches(forks, std::string(255, 'a')));
  std::string nots;
  for (int i = 0; i < 90; ++i) nots += "!(*";
  EXPECT_TRUE(matches(nots + std::string(90, ')'), std::string(255, 'a')));
}

TEST(Glob, CanBeUsedAgain) {
  Glob glob = Glob::compile("a*").value();
  EXPECT_TRUE(glob.matches("abc"));
  EXPECT_FALSE(glob.matches("b"));
  EXPECT_TRUE(glob.matches("a"));
  EXPECT_FALSE(glob.matches(""));
}

}  // namespace
}  // namespace osb::execd
