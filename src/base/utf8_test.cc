#include "base/utf8.h"

#include <gtest/gtest.h>

namespace osb {
namespace {

TEST(Utf8, AcceptsTheEdgesOfEveryLength) {
  for (const char* text : {"", "a", "\x7f", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80",
                           "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_EQ(find_invalid_utf8(text), std::string_view::npos) << testing::PrintToString(text);
  }
}

TEST(Utf8, NamesTheOffsetOfTheFirstBadByte) {
  struct {
    const char* why;
    std::string_view text;
    std::size_t at;
  } rows[] = {
      {"stray continuation", "ab\x80", 2},
      {"overlong slash", "\xC0\xAF", 0},
      {"overlong three bytes", "a\xE0\x9F\xBF", 1},
      {"overlong four bytes", "\xF0\x8F\xBF\xBF", 0},
      {"high surrogate", "xyz\xED\xA0\x80", 3},
      {"low surrogate", "\xED\xBF\xBF", 0},
      {"above the last code point", "\xF4\x90\x80\x80", 0},
      {"no such lead byte", "\xF5\x80\x80\x80", 0},
      {"cut off", "ok\xE2\x82", 2},
      {"second byte is ASCII", "\xE2\x28\xA1", 0},
      {"after a good sequence", "\xE2\x82\xAC\xFF", 3},
  };
  for (const auto& row : rows) EXPECT_EQ(find_invalid_utf8(row.text), row.at) << row.why;
}

}  // namespace
}  // namespace osb
