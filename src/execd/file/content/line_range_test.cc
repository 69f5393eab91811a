#include "execd/file/content/line_range.h"

#include <fcntl.h>
#include <fstream>

#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace osb::execd {
namespace {

std::string lines(const std::string& content, std::uint64_t first, std::uint64_t count, std::size_t limit = 1 << 20) {
  testing::TempDir dir;
  std::ofstream(dir / "f", std::ios::binary) << content;
  LineRange range(UniqueFd(::open((dir / "f").c_str(), O_RDONLY)), first, count);
  std::string all;
  for (;;) {
    std::string piece;
    auto more = range.fill(piece, limit);
    EXPECT_TRUE(more);
    all += piece;
    if (!more || !*more) return all;
  }
}

TEST(LineRange, SelectsAndJoins) {
  constexpr std::uint64_t kAll = UINT64_MAX;
  struct {
    const char* why;
    std::string content;
    std::uint64_t first, count;
    std::string want;
  } rows[] = {
      {"all, no break at the end", "a\nb\nc\n", 1, kAll, "a\nb\nc"},
      {"last line without a break", "a\nb", 1, kAll, "a\nb"},
      {"middle", "a\nb\nc\n", 2, 1, "b"},
      {"from the middle", "a\nb\nc\n", 2, kAll, "b\nc"},
      {"behind the end", "a\nb\n", 3, 5, ""},
      {"empty file", "", 1, kAll, ""},
      {"empty lines count", "\n\nx\n\n", 1, kAll, "\n\nx\n"},
      {"one empty line", "\n", 1, kAll, ""},
      {"CRLF", "a\r\nb\r\n", 1, kAll, "a\nb"},
      {"only the last CR is part of the break", "a\r\r\n", 1, kAll, "a\r"},
      {"CR within a line stays", "a\rb\n", 1, kAll, "a\rb"},
      {"CR at the end of the file", "a\r", 1, kAll, "a"},
      {"limit reaches behind the end", "a\nb\n", 2, 100, "b"},
      {"bytes stay", "\xff\n\xfe\n", 2, 1, "\xfe"},
  };
  for (const auto& row : rows) EXPECT_EQ(lines(row.content, row.first, row.count), row.want) << row.why;
}

TEST(LineRange, LinesMayBeLongerThanAnyBuffer) {
  const std::string line(1'000'000, 'x');
  EXPECT_EQ(lines("1\n" + line + "\r\n3\n", 2, 1, 1000), line);
  EXPECT_EQ(lines("1\n" + line + "\r\n3\n", 2, 2, 1000), line + "\n3");
  // A CR as the last byte of a read, and its LF as the first of the next one.
  const std::string at_edge(128 * 1024 - 1, 'y');
  EXPECT_EQ(lines(at_edge + "\r\nz\n", 1, 2), at_edge + "\nz");
  EXPECT_EQ(lines(at_edge + "\rz\n", 1, 2), at_edge + "\rz");
}

}  // namespace
}  // namespace osb::execd
