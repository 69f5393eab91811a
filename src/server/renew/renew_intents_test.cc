#include "server/renew/renew_intents.h"

#include <gtest/gtest.h>

namespace osb::server {
namespace {

TEST(RenewIntent, IsDroppedWhenItIsBrokenOrOld) {
  const auto now = *parse_timestamp("2025-01-02T03:04:05Z");
  EXPECT_EQ(read_renew_intent(R"({"sandbox_id":"a","observed_at":"2025-01-02T03:04:04.123456789Z","port":80})", now),
            "a");
  EXPECT_EQ(read_renew_intent(R"({"sandbox_id":"a","observed_at":"2025-01-02T02:59:05Z"})", now), "a");
  for (const char* wrong :
       {"", "[]", "x", R"({"sandbox_id":"a"})", R"({"sandbox_id":"","observed_at":"2025-01-02T03:04:05Z"})",
        R"({"sandbox_id":1,"observed_at":"2025-01-02T03:04:05Z"})", R"({"sandbox_id":"a","observed_at":"soon"})",
        R"({"sandbox_id":"a","observed_at":"2025-01-02T02:59:04Z"})"}) {
    EXPECT_FALSE(read_renew_intent(wrong, now)) << wrong;
  }
}

}  // namespace
}  // namespace osb::server
