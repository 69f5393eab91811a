#include "base/base64.h"

#include <gtest/gtest.h>

namespace osb {
namespace {

TEST(Base64, ThereAndBack) {
  for (const std::string& bytes :
       {std::string(), std::string("a"), std::string("ab"), std::string("abc"), std::string("\0\xff\xfe\x80", 4)}) {
    EXPECT_EQ(decode_base64(encode_base64(bytes)), bytes);
  }
  EXPECT_EQ(encode_base64("light work."), "bGlnaHQgd29yay4=");
  EXPECT_EQ(decode_base64("bGln\naHQ=\r\n"), "light");
  for (const char* wrong : {"a", "ab", "abc", "=abc", "ab=c", "ab c", "a===", "====", "ab-_"}) {
    EXPECT_EQ(decode_base64(wrong), std::nullopt) << wrong;
  }
}

}  // namespace
}  // namespace osb
