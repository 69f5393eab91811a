#include "server/renew/renew_intents.h"

#include <gtest/gtest.h>

#include "server/renew/resp.h"

namespace osb::server {
namespace {

TEST(RedisDsn, FormsThatClientsKnow) {
  const struct {
    const char* dsn;
    const char* origin;
    const char* user;
    const char* password;
    int database;
  } rows[] = {
      {"redis://localhost", "http://localhost:6379", "", "", 0},
      {"redis://cache.example:7000/3", "http://cache.example:7000", "", "", 3},
      {"redis://:p%40ss@h", "http://h:6379", "", "p@ss", 0},
      {"rediss://me:secret@h:1/", "https://h:1", "me", "secret", 0},
      {"redis://[::1]:2", "http://[::1]:2", "", "", 0},
      {"redis://[::1]", "http://[::1]:6379", "", "", 0},
      {"unix:///run/redis.sock?db=2", "unix:/run/redis.sock", "", "", 2},
  };
  for (const auto& row : rows) {
    const auto read = parse_redis_dsn(row.dsn);
    ASSERT_TRUE(read) << row.dsn;
    EXPECT_EQ(read->origin, row.origin);
    EXPECT_EQ(read->user, row.user);
    EXPECT_EQ(read->password, row.password);
    EXPECT_EQ(read->database, row.database);
  }
  for (const char* wrong : {"", "localhost", "http://h", "redis://", "redis://h:0", "redis://h:x", "redis://h/x",
                            "redis://:secret%zz@h", "unix://relative", "unix:///s?x=1", "redis://h/-1"}) {
    const auto read = parse_redis_dsn(wrong);
    ASSERT_FALSE(read) << wrong;
    EXPECT_EQ(read.error().message.find("secret"), std::string::npos);
  }
}

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

TEST(Resp, RepliesAreReadAsTheyArrive) {
  EXPECT_EQ(resp::encode({"BRPOP", "k", "5"}), "*3\r\n$5\r\nBRPOP\r\n$1\r\nk\r\n$1\r\n5\r\n");
  const std::string whole = "+OK\r\n*-1\r\n*2\r\n$1\r\nk\r\n$4\r\na\r\nb\r\n-ERR no\r\n:7\r\n$-1\r\n";
  std::string bytes;
  std::vector<resp::Reply> replies;
  for (const char c : whole) {
    bytes += c;
    auto reply = resp::take_reply(bytes);
    ASSERT_TRUE(reply) << reply.error().message;
    if (*reply) replies.push_back(std::move(**reply));
  }
  ASSERT_EQ(replies.size(), 6u);
  EXPECT_EQ(replies[0].text, "OK");
  EXPECT_EQ(replies[1].kind, resp::Reply::Kind::Nothing);
  ASSERT_EQ(replies[2].items.size(), 2u);
  EXPECT_EQ(replies[2].items[1].text, "a\r\nb");
  EXPECT_EQ(replies[3].kind, resp::Reply::Kind::Error);
  EXPECT_EQ(replies[4].text, "7");
  EXPECT_EQ(replies[5].kind, resp::Reply::Kind::Nothing);
  EXPECT_TRUE(bytes.empty());
}

TEST(Resp, WhatIsNotRedisIsRefused) {
  for (const char* wrong : {"HTTP/1.1 400\r\n", "$x\r\n", "$-2\r\n", "$99999999\r\n", "*99999\r\n", "$1\r\nabc",
                            "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n"}) {
    std::string bytes = wrong;
    EXPECT_FALSE(resp::take_reply(bytes)) << wrong;
  }
}

}  // namespace
}  // namespace osb::server
