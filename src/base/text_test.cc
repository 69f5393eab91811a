#include "base/text.h"

#include <vector>

#include <gtest/gtest.h>

namespace osb {
namespace {

TEST(Text, CaseIsThatOfAsciiLetters) {
  EXPECT_EQ(lower("Az09_\xc3\x84"), "az09_\xc3\x84");
  EXPECT_EQ(upper("aZ09_\xc3\xa4"), "AZ09_\xc3\xa4");
  EXPECT_EQ(lower('@'), '@');
  EXPECT_EQ(upper('{'), '{');
  EXPECT_TRUE(equals_ignoring_case("Bearer", "bEARER"));
  EXPECT_FALSE(equals_ignoring_case("Bearer", "Bearer "));
  EXPECT_FALSE(equals_ignoring_case("[", "{")) << "they differ by the bit of the case";
}

TEST(Text, BlanksAtBothEndsGo) {
  EXPECT_EQ(trimmed(" \t\r\n\v\fa b\n"), "a b");
  EXPECT_EQ(trimmed("\na\n", " "), "\na\n");
  EXPECT_EQ(trimmed(" \n"), "");
  EXPECT_EQ(trimmed(""), "");
  EXPECT_TRUE(is_blank(" \t\n") && is_blank(""));
  EXPECT_FALSE(is_blank(" x "));
}

TEST(Text, ControlBytesAreFound) {
  EXPECT_TRUE(has_control_byte("a\nb") && has_control_byte("\x7f") && has_control_byte(std::string_view("\0", 1)));
  EXPECT_FALSE(has_control_byte("a b\xc3\xa4"));
}

TEST(Text, WordsAreJoined) {
  EXPECT_EQ(joined(std::vector<std::string>{"a", "", "c"}), "a, , c");
  EXPECT_EQ(joined(std::vector<std::string_view>{"a"}, " "), "a");
  EXPECT_EQ(joined(std::vector<std::string>()), "");
}

}  // namespace
}  // namespace osb
