#include "execd/pty/replay_buffer.h"

#include <gtest/gtest.h>

namespace osb::execd {
namespace {

std::string since(const ReplayBuffer& buffer, std::uint64_t offset) {
  std::string out;
  buffer.copy_since(offset, out);
  return out;
}

TEST(ReplayBuffer, HoldsNothingWhileEmpty) {
  const ReplayBuffer buffer;
  EXPECT_EQ(buffer.memory_bytes(), 0U);
  EXPECT_EQ(buffer.begin(), 0U);
  EXPECT_EQ(buffer.end(), 0U);
  EXPECT_EQ(since(buffer, 0), "");
}

TEST(ReplayBuffer, OffsetsCountFromTheBeginningOfTheStream) {
  ReplayBuffer buffer(8);
  buffer.append("hello");
  EXPECT_EQ(since(buffer, 0), "hello");
  EXPECT_EQ(since(buffer, 3), "lo");
  EXPECT_EQ(since(buffer, 5), "");
  EXPECT_EQ(since(buffer, 99), "");
  buffer.append(" world");
  EXPECT_EQ(buffer.end(), 11U);
  EXPECT_EQ(buffer.begin(), 3U);
  EXPECT_EQ(since(buffer, 0), "lo world");
  EXPECT_EQ(since(buffer, 6), "world");
  buffer.append("much more than fits");
  EXPECT_EQ(since(buffer, 0), "han fits");
  EXPECT_EQ(buffer.begin(), 22U);
}

TEST(ReplayBuffer, AgreesWithAPlainStringForPiecesOfAllSizes) {
  for (const std::size_t limit : {1U, 7U, 1024U, 3000U}) {
    ReplayBuffer buffer(limit);
    std::string all;
    for (int i = 0; i < 400; ++i) {
      const std::string piece(static_cast<std::size_t>(i * 7 % 41), static_cast<char>('a' + i % 26));
      buffer.append(piece);
      all += piece;
      const std::size_t begin = all.size() > limit ? all.size() - limit : 0;
      ASSERT_EQ(buffer.begin(), begin);
      ASSERT_EQ(since(buffer, 0), all.substr(begin)) << limit << " " << i;
    }
    EXPECT_LE(buffer.memory_bytes(), limit);
  }
}

TEST(ReplayBuffer, MemoryFollowsWhatIsInIt) {
  ReplayBuffer buffer;
  buffer.append("x");
  EXPECT_LE(buffer.memory_bytes(), 4096U);
  buffer.append(std::string(100'000, 'x'));
  EXPECT_LE(buffer.memory_bytes(), 256U * 1024);
  buffer.append(std::string(5'000'000, 'x'));
  EXPECT_LE(buffer.memory_bytes(), 1024U * 1024);
}

}  // namespace
}  // namespace osb::execd
