#include "base/constant_time.h"

#include <gtest/gtest.h>

namespace osb {
namespace {

TEST(ConstantTime, ComparesTokens) {
  EXPECT_TRUE(equal_in_constant_time("secret", "secret"));
  EXPECT_TRUE(equal_in_constant_time("", ""));
  for (const char* wrong : {"", "secre", "secret1", "Secret", "xxxxxx", "secretsecret"}) {
    EXPECT_FALSE(equal_in_constant_time("secret", wrong)) << wrong;
    EXPECT_FALSE(equal_in_constant_time(wrong, "secret")) << wrong;
  }
}

}  // namespace
}  // namespace osb
