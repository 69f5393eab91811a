#include "base/timed_log.h"

#include <gtest/gtest.h>

namespace osb {
namespace {

const std::string kFirst = "2025-01-02T03:04:05.000000006Z";
const std::string kSecond = "2025-01-02T03:04:06.120000000Z";

std::string_view text_of(const LogStamp& stamp) { return {stamp.data(), stamp.size()}; }

std::vector<LogPiece> read(std::string_view log, std::size_t step) {
  TimedLogReader reader;
  std::vector<LogPiece> out;
  for (std::size_t at = 0; at < log.size(); at += step) reader.feed(log.substr(at, step), out);
  reader.finish(out);
  return out;
}

// Parts of one line put together again.
std::vector<LogPiece> joined(const std::vector<LogPiece>& pieces) {
  std::vector<LogPiece> out;
  for (const LogPiece& piece : pieces) {
    if (out.empty() || out.back().text.ends_with('\n')) {
      out.push_back(piece);
    } else {
      EXPECT_EQ(piece.time, out.back().time);
      out.back().text += piece.text;
    }
  }
  return out;
}

TEST(TimedLog, StampsHaveOneWidthAndSortAsText) {
  EXPECT_EQ(text_of(make_log_stamp({1735787045, 6})), kFirst + " ");
  EXPECT_EQ(text_of(make_log_stamp({1735787046, 120'000'000})), kSecond + " ");
  EXPECT_EQ(text_of(make_log_stamp({1735787046, 0})), "2025-01-02T03:04:06.000000000Z ");
  EXPECT_LT(make_log_stamp({1735787045, 999'999'999}), make_log_stamp({1735787046, 0}));
}

TEST(TimedLog, OnlyTheWholeShapeIsAStamp) {
  EXPECT_TRUE(begins_with_log_stamp(kFirst + " text"));
  EXPECT_FALSE(begins_with_log_stamp(kFirst));
  EXPECT_FALSE(begins_with_log_stamp("2025-01-02T03:04:05.00000006Z  text"));
  EXPECT_FALSE(begins_with_log_stamp(""));
}

TEST(TimedLog, WithoutStampsItIsWhatTheProgramWrote) {
  EXPECT_EQ(without_log_stamps(kFirst + " a\n" + kSecond + " b"), "a\nb");
  EXPECT_EQ(without_log_stamps(kFirst + " " + kSecond + " made up\nplain\n"), kSecond + " made up\nplain\n");
  EXPECT_EQ(without_log_stamps(kFirst + " "), "");
  EXPECT_EQ(without_log_stamps(""), "");
}

TEST(TimedLog, LinesComeWithTheirTimesWhereverTheBytesAreCut) {
  const std::string log = kFirst + " one\n" + kFirst + " \n" + kSecond + " " + kFirst + " made up\n" + "no time\n" +
                          kSecond + " z\xC3\xBCrich \xF0\x9F\x9A\x80\n" + kSecond + std::string(" a\0\xFF\n", 5) +
                          kSecond + " part";
  const std::vector<LogPiece> wanted = {{kFirst, "one\n"},
                                        {kFirst, "\n"},
                                        {kSecond, kFirst + " made up\n"},
                                        {"", "no time\n"},
                                        {kSecond, "z\xC3\xBCrich \xF0\x9F\x9A\x80\n"},
                                        {kSecond, std::string("a\0\xFF\n", 4)},
                                        {kSecond, "part"}};
  EXPECT_EQ(read(log, log.size()), wanted);
  for (std::size_t step = 1; step < log.size(); ++step) EXPECT_EQ(joined(read(log, step)), wanted) << step;
}

TEST(TimedLog, APartOfALineIsGivenAtOnceButNoHalfCharacter) {
  TimedLogReader reader;
  std::vector<LogPiece> out;
  reader.feed(kFirst + " name? ", out);
  EXPECT_EQ(out, (std::vector<LogPiece>{{kFirst, "name? "}}));
  out.clear();
  reader.feed("\xE2\x82", out);
  EXPECT_TRUE(out.empty());
  reader.feed("\xAC", out);
  EXPECT_EQ(out, (std::vector<LogPiece>{{kFirst, "\xE2\x82\xAC"}}));
}

TEST(TimedLog, AnEndInsideAStampIsOutputWithoutATime) {
  EXPECT_EQ(read("2025-01", 3), (std::vector<LogPiece>{{"", "2025-01"}}));
}

}  // namespace
}  // namespace osb
