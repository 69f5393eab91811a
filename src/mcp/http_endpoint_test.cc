#include "mcp/http_endpoint.h"

#include <gtest/gtest.h>

namespace osb::mcp {
namespace {

TEST(HttpEndpoint, ComparesTokens) {
  EXPECT_TRUE(equal_in_constant_time("secret", "secret"));
  for (const char* wrong : {"", "secre", "secret1", "Secret", "xxxxxx"}) {
    EXPECT_FALSE(equal_in_constant_time(wrong, "secret")) << wrong;
  }
}

}  // namespace
}  // namespace osb::mcp
