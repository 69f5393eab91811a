#include "base/line_splitter.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace osb {
namespace {

using ::testing::ElementsAre;
using Lines = std::vector<std::string>;

Lines split(const std::vector<std::string>& reads, std::size_t max_line = 1 << 20) {
  LineSplitter splitter(max_line);
  Lines lines;
  const auto sink = [&](std::string_view line) { lines.emplace_back(line); };
  for (const std::string& read : reads) splitter.feed(read, sink);
  splitter.finish(sink);
  return lines;
}

TEST(LineSplitter, EveryTerminatorEndsALine) {
  struct {
    const char* why;
    std::string bytes;
    Lines want;
  } rows[] = {
      {"nothing", "", {}},
      {"the contract's example", "a\n\nb\n\n\nc\n", {"a", "", "b", "", "", "c"}},
      {"CR alone is a progress bar", "10%\r20%\r", {"10%", "20%"}},
      {"CRLF counts once", "a\r\nb\r\n", {"a", "b"}},
      {"LF CR is two ends", "a\n\rb", {"a", "", "b"}},
      {"CR CRLF", "a\r\r\nb", {"a", "", "b"}},
      {"unterminated tail", "a\nb", {"a", "b"}},
      {"NUL is an ordinary byte", std::string("a\0b\n", 4), {std::string("a\0b", 3)}},
  };
  for (const auto& row : rows) EXPECT_EQ(split({row.bytes}), row.want) << row.why;
}

TEST(LineSplitter, ResultsDoNotDependOnWhereReadsAreCut) {
  const std::string bytes = "one\r\ntwo\rthree\n\n\r\n\r\rfour\nfive";
  const Lines want = split({bytes});
  for (std::size_t i = 0; i <= bytes.size(); ++i) {
    for (std::size_t j = i; j <= bytes.size(); ++j) {
      EXPECT_EQ(split({bytes.substr(0, i), bytes.substr(i, j - i), bytes.substr(j)}), want) << i << " " << j;
    }
  }
}

TEST(LineSplitter, PartialLinesWaitForTheirEnd) {
  LineSplitter splitter(1024);
  Lines lines;
  const auto sink = [&](std::string_view line) { lines.emplace_back(line); };
  splitter.feed("half", sink);
  EXPECT_TRUE(lines.empty());
  splitter.feed(" a line\n", sink);
  EXPECT_THAT(lines, ElementsAre("half a line"));
}

TEST(LineSplitter, ALineCanBeSkippedToItsEnd) {
  for (const std::string end : {"\n", "\r", "\r\n"}) {
    LineSplitter splitter;
    Lines lines;
    const auto sink = [&](std::string_view line) { lines.emplace_back(line); };
    splitter.feed("one" + end + "long", sink);
    EXPECT_EQ(splitter.pending(), 4U);
    splitter.skip_line();
    splitter.feed("er", sink);
    EXPECT_EQ(splitter.pending(), 0U);
    for (const char byte : " still" + end + end + "two" + end) splitter.feed({&byte, 1}, sink);
    EXPECT_THAT(lines, ElementsAre("one", "", "two"));
  }
}

TEST(LineSplitter, LongLinesComeInPiecesWithoutAnExtraEmptyOne) {
  EXPECT_EQ(split({"0123456789abcdef\nx\n"}, 8), (Lines{"01234567", "89abcdef", "x"}));
  EXPECT_EQ(split({"0123", "4567", "89abcdef", "\n", "x"}, 8), (Lines{"01234567", "89abcdef", "x"}));
  EXPECT_EQ(split({"01234567\n\n"}, 8), (Lines{"01234567", ""})) << "exactly the limit is one line";
  EXPECT_EQ(split({"0123456789", "", "\n\n"}, 8), (Lines{"01234567", "89", ""}));
}

TEST(LineSplitter, PiecesDoNotCutCharacters) {
  const std::string euro = "\xE2\x82\xAC";
  EXPECT_EQ(split({"1234567" + euro + "\n"}, 8), (Lines{"1234567", euro}));
  EXPECT_EQ(split({"1234567" + euro.substr(0, 1), euro.substr(1) + "\n"}, 8), (Lines{"1234567", euro}));
  EXPECT_EQ(split({std::string(20, '\x80')}, 8),
            (Lines{std::string(8, '\x80'), std::string(8, '\x80'), std::string(4, '\x80')}))
      << "bytes that are no UTF-8 are cut at the limit";
}

}  // namespace
}  // namespace osb
