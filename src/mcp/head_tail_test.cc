#include "mcp/head_tail.h"

#include <gtest/gtest.h>

namespace osb::mcp {
namespace {

// Lines "1" to `count`, numbered from 0, as events 11, 12, ..
HeadTail lines_to(int count, std::size_t keep) {
  HeadTail out(keep);
  for (int i = 0; i < count; ++i) {
    out.append(std::to_string(i + 1), static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(i) + 11);
  }
  return out;
}

TEST(HeadTail, ShortOutputIsWhole) {
  const auto part = lines_to(3, 100).fit({100, 100});
  EXPECT_EQ(part.head, "1\n2\n3\n");
  EXPECT_EQ(part.tail, "");
  EXPECT_EQ(part.left_out_bytes, 0u);
}

TEST(HeadTail, LongOutputHasBeginAndEnd) {
  const HeadTail output = lines_to(1000, 40);
  const auto part = output.fit({40, 200});
  EXPECT_EQ(part.head, "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
  EXPECT_EQ(part.tail, "997\n998\n999\n1000\n");
  EXPECT_EQ(part.left_out_lines, 1000u - 9 - 4);
  EXPECT_EQ(part.left_out_bytes, output.bytes() - part.head.size() - part.tail.size());
  EXPECT_EQ(part.next, (OutputPosition{9, 19, 0})) << "behind the ninth line, whose event is 19";
}

TEST(HeadTail, TheEncodedSizeCountsToo) {
  const HeadTail output = lines_to(1000, 1000);
  const auto part = output.fit({1000, 100});
  EXPECT_LE(reply_cost(part.head) + reply_cost(part.tail), 100u);
  EXPECT_GT(reply_cost(part.head) + reply_cost(part.tail), 80u);
}

TEST(HeadTail, ALongLineIsCutInsideAndItsMemoryIsBounded) {
  HeadTail output(64);
  output.append("first", 0, 5);
  std::string line;
  line.resize(50'000'000, 'a');
  output.append(line + "end", 1, 6);
  const auto part = output.fit({64, 400});
  EXPECT_EQ(part.head, "first\n" + std::string(26, 'a'));
  EXPECT_EQ(part.tail, std::string(28, 'a') + "end\n");
  EXPECT_EQ(part.next, (OutputPosition{1, 5, 26})) << "26 bytes into the line of event 6";
}

TEST(HeadTail, HeadAndTailDoNotOverlap) {
  const HeadTail output = lines_to(10, 18);  // 21 bytes
  const auto part = output.fit({18, 1000});
  EXPECT_EQ(part.head, "1\n2\n3\n4\n");
  EXPECT_EQ(part.tail, "7\n8\n9\n10\n");
  EXPECT_EQ(part.left_out_lines, 2u);
}

TEST(HeadTail, PiecesHaveTheirOwnNewlines) {
  HeadTail output(100);
  output.append("one\ntw", 0, 1, "");
  output.append("o\n", 1, 2, "");
  EXPECT_EQ(output.fit({100, 100}).head, "one\ntwo\n");
  EXPECT_EQ(output.bytes(), 8u);
}

TEST(HeadTail, SharesRoom) {
  using Pair = std::pair<std::size_t, std::size_t>;
  EXPECT_EQ(share(30, 20, 100), Pair(30, 20));
  EXPECT_EQ(share(1000, 20, 100), Pair(80, 20));
  EXPECT_EQ(share(20, 1000, 100), Pair(20, 80));
  EXPECT_EQ(share(1000, 1000, 100), Pair(50, 50));
}

}  // namespace
}  // namespace osb::mcp
