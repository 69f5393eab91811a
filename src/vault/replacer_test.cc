#include "vault/replacer.h"

#include <gtest/gtest.h>

#include "base/base64.h"
#include "vault/forms.h"

namespace osb::vault {
namespace {

Replacement pair(std::string_view pattern, std::string_view value) { return {SecretText(pattern), SecretText(value)}; }

ReplacementsPtr some() {
  std::vector<Replacement> list;
  list.push_back(pair("__A__", "one"));
  list.push_back(pair("__A__B", "__A__"));
  list.push_back(pair("abab", "X"));
  return std::make_shared<const Replacements>(std::move(list));
}

TEST(Replacements, LongestPatternWinsAndInsertedTextIsNotLookedAtAgain) {
  EXPECT_EQ(some()->apply("-__A__-__A__B-").view(), "-one-__A__-");
  EXPECT_EQ(some()->apply("ababab").view(), "Xab");
  EXPECT_EQ(some()->apply("").view(), "");
  EXPECT_TRUE(some()->occurs_in("x__A__"));
  EXPECT_FALSE(some()->occurs_in("x__a__"));
}

TEST(StreamReplacer, AnyCutOfTheStreamGivesTheSameText) {
  const std::string text = "a__A_x__A____A__Bababa__A__";
  const std::string want(some()->apply(text).view());
  for (std::size_t first = 0; first <= text.size(); ++first) {
    for (std::size_t second = first; second <= text.size(); ++second) {
      StreamReplacer replacer(some());
      std::string out;
      replacer.write(std::string_view(text).substr(0, first), out);
      replacer.write(std::string_view(text).substr(first, second - first), out);
      replacer.write(std::string_view(text).substr(second), out);
      replacer.finish(out);
      ASSERT_EQ(out, want) << first << " " << second;
    }
  }
}

TEST(StreamReplacer, TextThatBeginsNoPatternIsNotHeldBack) {
  StreamReplacer replacer(some());
  std::string out;
  replacer.write("data: hello\n\n", out);
  EXPECT_EQ(out, "data: hello\n\n");
  replacer.write("x__A", out);
  EXPECT_EQ(out, "data: hello\n\nx");
  replacer.finish(out);
  EXPECT_EQ(out, "data: hello\n\nx__A");
}

TEST(Redactions, CoverPlainPercentFormJsonAndBase64) {
  const std::string secret = "s3cr et/\"+value";
  std::vector<Replacement> list;
  add_redactions(secret, list);
  const auto locked = Replacements::locked(list);
  ASSERT_TRUE(locked) << locked.error().message;
  const auto hidden = [&](const std::string& text) {
    const SecretText out = (*locked)->apply(text);
    return out.view().contains("[REDACTED]") && !out.view().contains(text);
  };
  EXPECT_EQ((*locked)->apply("a " + secret + " b").view(), "a [REDACTED] b");
  EXPECT_TRUE(hidden("s3cr%20et%2F%22%2Bvalue"));
  EXPECT_TRUE(hidden("s3cr%20et%2f%22%2bvalue"));
  EXPECT_TRUE(hidden("s3cr+et%2F%22%2Bvalue"));
  EXPECT_TRUE(hidden("s3cr et/\\\"+value"));
  for (const char* before : {"", "u", "us", "use", "user:"}) {
    for (const char* after : {"", "x", "xy"}) {
      std::string encoded = encode_base64(before + secret + after);
      EXPECT_TRUE((*locked)->occurs_in(encoded)) << before << " " << after;
      for (char& c : encoded) c = c == '+' ? '-' : c == '/' ? '_' : c;
      EXPECT_TRUE((*locked)->occurs_in(encoded)) << before << " " << after;
    }
  }
  EXPECT_EQ((*locked)->apply("nothing of it").view(), "nothing of it");
}

}  // namespace
}  // namespace osb::vault
