#include "mcp/event_stream.h"

#include <gtest/gtest.h>

namespace osb::mcp {
namespace {

TEST(EventStream, ReadsItsOwnIds) {
  const auto id = EventStream::parse_id("12-345");
  ASSERT_TRUE(id);
  EXPECT_EQ(id->stream, 12U);
  EXPECT_EQ(id->event, 345U);
  for (const char* wrong : {"", "-", "1", "1-", "-1", "a-1", "1-a", "1-2-3", "99999999999999999999-1"}) {
    EXPECT_FALSE(EventStream::parse_id(wrong)) << wrong;
  }
}

}  // namespace
}  // namespace osb::mcp
