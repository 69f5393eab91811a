#include "mcp/http_endpoint.h"

#include <gtest/gtest.h>

namespace osb::mcp {
namespace {

TEST(HttpEndpoint, KnowsItsOwnMachine) {
  for (const char* host : {"localhost", "LOCALHOST:80", "127.0.0.1", "127.1.2.3:8000", "[::1]:8000", "::1"}) {
    EXPECT_TRUE(is_loopback_host(host)) << host;
  }
  for (const char* host :
       {"", "localhost.evil.com", "127.0.0.1.evil.com", "evil.com", "127.evil.com", "[::2]", "0.0.0.0"}) {
    EXPECT_FALSE(is_loopback_host(host)) << host;
  }
}

TEST(HttpEndpoint, ComparesTokens) {
  EXPECT_TRUE(equal_in_constant_time("secret", "secret"));
  for (const char* wrong : {"", "secre", "secret1", "Secret", "xxxxxx"}) {
    EXPECT_FALSE(equal_in_constant_time(wrong, "secret")) << wrong;
  }
}

}  // namespace
}  // namespace osb::mcp
