#include "sandboxd/sandbox/log_file.h"

#include <fcntl.h>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "base/timed_log.h"
#include "sandboxd/sandbox/file_tail.h"
#include "support/temp_dir.h"
#include "sys/syscall.h"

namespace osb::sandboxd {
namespace {

constexpr std::size_t kAll = 8 << 20;

std::string time_of(int second) {
  const LogStamp stamp = make_log_stamp({1735787045 + second, 0});
  return {stamp.data(), stamp.size() - 1};
}

// Line i of a log; it was written in second i.
std::string line(int i) { return time_of(i) + " line " + std::to_string(i) + "\n"; }

class LogFileTest : public ::testing::Test {
 protected:
  void append(const std::string& text) { std::ofstream(path_, std::ios::app | std::ios::binary) << text; }
  void append_lines(int first, int last) {
    std::string text;
    for (int i = first; i <= last; ++i) text += line(i);
    append(text);
  }
  int fd() {
    if (!file_) file_ = std::move(*sys::open_at(AT_FDCWD, path_, O_RDONLY));
    return file_.get();
  }
  std::string from(const LogsFrom& from) {
    const auto start = find_log_start(fd(), from);
    EXPECT_TRUE(start);
    const auto chunk = read_log(fd(), *start, kAll);
    EXPECT_TRUE(chunk);
    EXPECT_EQ(chunk->gone, 0U);
    return chunk->bytes;
  }

  testing::TempDir dir_;
  const std::string path_ = (dir_ / "log").string();
  UniqueFd file_;
};

TEST_F(LogFileTest, AnEmptyLogBeginsAndEndsAtOnce) {
  append("");
  EXPECT_EQ(from({}), "");
  EXPECT_EQ(from({.since = time_of(0), .tail = 5}), "");
}

TEST_F(LogFileTest, TheTailIsTheLastLines) {
  append_lines(0, 9);
  EXPECT_EQ(from({.since = "", .tail = 2}), line(8) + line(9));
  EXPECT_EQ(from({.since = "", .tail = 0}), "");
  EXPECT_EQ(from({.since = "", .tail = 10}), from({}));
  EXPECT_EQ(from({.since = "", .tail = 1000}), from({}));
  append(time_of(10) + " half");
  EXPECT_EQ(from({.since = "", .tail = 2}), line(9) + time_of(10) + " half");
}

TEST_F(LogFileTest, SinceBeginsInTheMiddle) {
  append_lines(0, 9);
  EXPECT_EQ(from({.since = time_of(7), .tail = {}}), line(7) + line(8) + line(9));
  EXPECT_EQ(from({.since = time_of(-5), .tail = {}}), from({}));
  EXPECT_EQ(from({.since = time_of(10), .tail = {}}), "");
  EXPECT_EQ(from({.since = time_of(3), .tail = 2}), line(8) + line(9));
  EXPECT_EQ(from({.since = time_of(9), .tail = 5}), line(9));
}

TEST_F(LogFileTest, SinceIsFoundBehindLinesOfAnyLengthAndContent) {
  // Stamps lie across the blocks that are read.
  for (int i = 0; i < 40; ++i) {
    append(time_of(i) + " " + std::string(static_cast<std::size_t>(i) * 4099, i % 2 == 0 ? 'x' : '\0') + "\n");
  }
  append("no time " + time_of(99) + "\n" + time_of(50) + " " + time_of(99) + " made up\n" + line(60));
  EXPECT_EQ(from({.since = time_of(60), .tail = {}}), line(60));
  EXPECT_EQ(from({.since = time_of(45), .tail = {}}), time_of(50) + " " + time_of(99) + " made up\n" + line(60));
  EXPECT_EQ(from({.since = time_of(99), .tail = {}}), "");
}

TEST_F(LogFileTest, TheFreedPartIsSkippedByWholeLines) {
  append_lines(0, 99'999);
  ASSERT_TRUE(free_all_but_tail(path_, 1 << 20));
  const std::string kept = from({});
  EXPECT_TRUE(begins_with_log_stamp(kept)) << kept.substr(0, 60);
  EXPECT_TRUE(kept.ends_with(line(99'999)));
  EXPECT_GE(kept.size(), (1U << 20) - line(99'999).size());
  EXPECT_LE(kept.size(), (1U << 20) + (64U << 10));
  EXPECT_EQ(from({.since = "", .tail = 1}), line(99'999));
}

TEST_F(LogFileTest, AHugeLogThatHoldsNothingIsSkipped) {
  constexpr std::uint64_t kHuge = std::uint64_t{8} << 40;
  append("x");  // no newline, and then nothing for long
  std::filesystem::resize_file(path_, kHuge);
  EXPECT_EQ(*find_log_start(fd(), {}), 0U);
  EXPECT_EQ(*find_log_start(fd(), {.since = time_of(0), .tail = {}}), kHuge);
  EXPECT_GE(*find_log_start(fd(), {.since = "", .tail = 1}), kHuge - kAll * 32);
  const auto first = read_log(fd(), 0, kAll);
  ASSERT_TRUE(first);
  const auto rest = read_log(fd(), first->next, kAll);
  ASSERT_TRUE(rest);
  EXPECT_EQ(rest->bytes, "");
  EXPECT_EQ(rest->gone, kHuge - first->next);
  EXPECT_EQ(rest->next, kHuge);
  // All of it is one hole; then there is a line behind it.
  std::filesystem::resize_file(path_, 0);
  std::filesystem::resize_file(path_, kHuge);
  EXPECT_EQ(*find_log_start(fd(), {}), kHuge);
  EXPECT_EQ(*find_log_start(fd(), {.since = time_of(0), .tail = 3}), kHuge);
  append("\n" + line(1));
  EXPECT_EQ(from({}), line(1));
  EXPECT_EQ(from({.since = time_of(0), .tail = 3}), line(1));
}

TEST_F(LogFileTest, AReaderThatWasTooSlowIsToldHowMuchItMissed) {
  append_lines(0, 99'999);
  const auto first = read_log(fd(), 0, line(0).size());
  ASSERT_TRUE(first);
  EXPECT_EQ(first->bytes, line(0));
  ASSERT_TRUE(free_all_but_tail(path_, 1 << 20));
  const auto rest = read_log(fd(), first->next, kAll);
  ASSERT_TRUE(rest);
  EXPECT_GT(rest->gone, 0U);
  EXPECT_TRUE(begins_with_log_stamp(rest->bytes));
  EXPECT_EQ(first->next + rest->gone + rest->bytes.size(), rest->next);
  EXPECT_EQ(read_log(fd(), rest->next, kAll)->bytes, "");
}

}  // namespace
}  // namespace osb::sandboxd
