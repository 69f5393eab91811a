#include "redis/resp.h"

#include <gtest/gtest.h>

namespace osb::redis {
namespace {

TEST(Resp, RepliesAreReadAsTheyArrive) {
  EXPECT_EQ(encode({"BRPOP", "k", "5"}), "*3\r\n$5\r\nBRPOP\r\n$1\r\nk\r\n$1\r\n5\r\n");
  const std::string whole = "+OK\r\n*-1\r\n*2\r\n$1\r\nk\r\n$4\r\na\r\nb\r\n-ERR no\r\n:7\r\n$-1\r\n";
  std::string bytes;
  std::vector<Reply> replies;
  for (const char c : whole) {
    bytes += c;
    auto reply = take_reply(bytes);
    ASSERT_TRUE(reply) << reply.error().message;
    if (*reply) replies.push_back(std::move(**reply));
  }
  ASSERT_EQ(replies.size(), 6u);
  EXPECT_EQ(replies[0].text, "OK");
  EXPECT_EQ(replies[1].kind, Reply::Kind::Nothing);
  ASSERT_EQ(replies[2].items.size(), 2u);
  EXPECT_EQ(replies[2].items[1].text, "a\r\nb");
  EXPECT_EQ(replies[3].kind, Reply::Kind::Error);
  EXPECT_EQ(replies[4].number, 7);
  EXPECT_EQ(replies[5].kind, Reply::Kind::Nothing);
  EXPECT_TRUE(bytes.empty());
}

TEST(Resp, RepliesThatAreNotRedisAreRefused) {
  for (const char* wrong : {"HTTP/1.1 400\r\n", "$x\r\n", "$-2\r\n", "$99999999\r\n", "*99999\r\n", "$1\r\nabc",
                            "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n"}) {
    std::string bytes = wrong;
    EXPECT_FALSE(take_reply(bytes)) << wrong;
  }
}

}  // namespace
}  // namespace osb::redis
