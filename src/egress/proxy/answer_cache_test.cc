#include "egress/proxy/answer_cache.h"

#include <gtest/gtest.h>

#include "egress/dns/message_fixture.h"

namespace osb::egress {
namespace {

using namespace testing;

std::shared_ptr<const Answer> answer_with(std::uint32_t ttl) {
  const Query asked = query("a.com", RecordType::A);
  return std::make_shared<const Answer>(
      asked.question, *parse_response(message({.name = "a.com", .answers = {a("a.com", "1.1.1.1", ttl)}})));
}

const SteadyTime kStart{std::chrono::hours(1)};

TEST(AnswerCache, AnswersLiveAsLongAsTheirTtl) {
  AnswerCache cache;
  cache.insert(1, "key", answer_with(10), kStart);
  cache.insert(1, "never", answer_with(0), kStart);
  ASSERT_TRUE(cache.find("key", kStart + std::chrono::seconds(9)));
  EXPECT_EQ(cache.find("key", kStart + std::chrono::seconds(9))->age, 9u);
  EXPECT_FALSE(cache.find("key", kStart + std::chrono::seconds(10)));
  EXPECT_FALSE(cache.find("never", kStart));
  EXPECT_EQ(cache.size(), 0u);
  EXPECT_EQ(cache.bytes(), 0u);
}

TEST(AnswerCache, OneSandboxCannotPushOutTheAnswersOfAnother) {
  AnswerCache cache(40'000);
  for (int i = 0; i < 10; ++i) cache.insert(1, "quiet" + std::to_string(i), answer_with(60), kStart);
  for (int i = 0; i < 10'000; ++i) cache.insert(2, "loud" + std::to_string(i), answer_with(60), kStart);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(cache.find("quiet" + std::to_string(i), kStart)) << i;
  EXPECT_TRUE(cache.find("loud9999", kStart));
  EXPECT_FALSE(cache.find("loud0", kStart));
  EXPECT_LE(cache.bytes(), 40'000u);
}

TEST(AnswerCache, ANewAnswerReplacesTheOldOne) {
  AnswerCache cache;
  cache.insert(1, "key", answer_with(10), kStart);
  const std::size_t bytes = cache.bytes();
  cache.insert(2, "key", answer_with(20), kStart);
  EXPECT_EQ(cache.size(), 1u);
  EXPECT_EQ(cache.bytes(), bytes);
  EXPECT_TRUE(cache.find("key", kStart + std::chrono::seconds(15)));
}

}  // namespace
}  // namespace osb::egress
