#include "execd/run/output_log.h"

#include <string>

#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace osb::execd {
namespace {

std::string read(const OutputLog& log, std::uint64_t from) {
  std::string out;
  for (const OutputLog::Part& part : log.slice(from)) {
    std::string bytes(part.length, '\0');
    EXPECT_EQ(::pread(part.file->get(), bytes.data(), bytes.size(), static_cast<off_t>(part.offset)),
              static_cast<ssize_t>(bytes.size()));
    out += bytes;
  }
  return out;
}

// Byte i of the output is a function of i, so that offsets can be checked.
std::string pattern(std::uint64_t from, std::uint64_t to) {
  std::string out;
  for (std::uint64_t i = from; i < to; ++i) out += static_cast<char>('a' + i % 23);
  return out;
}

TEST(OutputLog, GivesBackWhatWasWrittenFromAnyOffset) {
  const testing::TempDir dir;
  OutputLog log(dir.path().string(), 1000);
  EXPECT_TRUE(log.slice(0).empty());
  log.append("hello ");
  log.append("world");
  EXPECT_EQ(log.end(), 11U);
  EXPECT_EQ(read(log, 0), "hello world");
  EXPECT_EQ(read(log, 6), "world");
  EXPECT_EQ(read(log, 11), "");
  EXPECT_EQ(read(log, 12), "");
}

TEST(OutputLog, KeepsTheNewestBytesAndTheirOffsets) {
  const testing::TempDir dir;
  OutputLog log(dir.path().string(), 1000);
  for (std::uint64_t at = 0; at < 20'000; at += 77) {
    log.append(pattern(at, at + 77));
    EXPECT_EQ(log.end(), at + 77);
    EXPECT_LE(log.file_bytes(), 1000U);
    if (log.end() > 500) {
      EXPECT_GE(log.file_bytes(), 500U);
    }
    EXPECT_EQ(read(log, log.begin()), pattern(log.begin(), log.end()));
  }
  EXPECT_EQ(read(log, log.end() - 600 + 300), pattern(log.end() - 300, log.end()));
}

TEST(OutputLog, OnePieceLargerThanTheLimitLeavesItsEnd) {
  const testing::TempDir dir;
  OutputLog log(dir.path().string(), 1000);
  log.append(pattern(0, 12'345));
  EXPECT_EQ(log.end(), 12'345U);
  EXPECT_EQ(read(log, log.begin()), pattern(log.begin(), 12'345));
}

TEST(OutputLog, PartsOutliveTheirRemoval) {
  const testing::TempDir dir;
  OutputLog log(dir.path().string(), 1000);
  log.append(pattern(0, 400));
  const auto parts = log.slice(0);
  log.append(pattern(400, 5000));
  std::string bytes(400, '\0');
  ASSERT_EQ(::pread(parts.at(0).file->get(), bytes.data(), 400, 0), 400);
  EXPECT_EQ(bytes, pattern(0, 400));
}

TEST(OutputLog, WorksWithoutADirectory) {
  const testing::TempDir dir;
  OutputLog log((dir / "missing").string(), 1 << 30);
  log.append("kept in memory");
  EXPECT_EQ(read(log, 0), "kept in memory");
}

TEST(OutputLog, DiscardingKeepsOffsets) {
  const testing::TempDir dir;
  OutputLog log(dir.path().string(), 1000);
  log.append("0123456789");
  log.discard();
  EXPECT_EQ(log.begin(), 10U);
  EXPECT_EQ(log.end(), 10U);
  log.append("ab");
  EXPECT_EQ(read(log, 10), "ab");
}

}  // namespace
}  // namespace osb::execd
