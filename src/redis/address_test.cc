#include "redis/address.h"

#include <gtest/gtest.h>

namespace osb::redis {
namespace {

TEST(RedisAddress, IsReadFromEveryFormThatClientsKnow) {
  const struct {
    const char* url;
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
      {"redis://me:s%40crt@[::1]:7000/3", "http://[::1]:7000", "me", "s@crt", 3},
      {"unix:/run/redis.sock", "unix:/run/redis.sock", "", "", 0},
      {"unix:///run/redis.sock?db=2", "unix:/run/redis.sock", "", "", 2},
  };
  for (const auto& row : rows) {
    const auto read = parse_address(row.url);
    ASSERT_TRUE(read) << row.url;
    EXPECT_EQ(read->origin, row.origin);
    EXPECT_EQ(read->user, row.user);
    EXPECT_EQ(read->password, row.password);
    EXPECT_EQ(read->database, row.database);
  }
  for (const char* wrong :
       {"", "localhost", "http://h", "redis://", "redis://h:0", "redis://h:x", "redis://h/x", "redis://:secret%zz@h",
        "unix://relative", "unix:///s?x=1", "redis://h/-1", "redis://x@h", "unix:x"}) {
    const auto read = parse_address(wrong);
    ASSERT_FALSE(read) << wrong;
    EXPECT_EQ(read.error().message.find("secret"), std::string::npos);
  }
}

}  // namespace
}  // namespace osb::redis
