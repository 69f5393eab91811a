#include "mcp/encoding.h"

#include <gtest/gtest.h>

namespace osb::mcp {
namespace {

TEST(Encoding, TextOfEveryKind) {
  EXPECT_EQ(to_text("\xfc", Encoding::Latin1, false), "\xc3\xbc");
  EXPECT_EQ(to_bytes("\xc3\xbc", Encoding::Latin1), "\xfc");
  EXPECT_FALSE(to_bytes("\xe4\xb8\x89", Encoding::Latin1));
  EXPECT_FALSE(to_text("a\xff", Encoding::Utf8, false));
  EXPECT_EQ(to_text("a\xff", Encoding::Utf8, true), "a\xef\xbf\xbd");
  EXPECT_FALSE(to_text("\xc3\xbc", Encoding::Ascii, false));
  EXPECT_FALSE(to_bytes("!", Encoding::Base64));
  EXPECT_TRUE(parse_encoding("UTF_8"));
  EXPECT_FALSE(parse_encoding("ebcdic"));
}

}  // namespace
}  // namespace osb::mcp
