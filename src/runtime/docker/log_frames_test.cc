#include "runtime/docker/log_frames.h"

#include <gtest/gtest.h>

namespace osb::runtime {
namespace {

std::string frame(std::string_view text, char stream = 1) {
  std::string out = {stream, 0, 0, 0};
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(text.size() >> shift & 0xFF);
  return out.append(text);
}

TEST(LogFrames, GiveLinesWithTheirTimesWhereverTheyAreCut) {
  const std::string stream = frame("2025-01-02T03:04:05.000000006Z one\n") +
                             frame("2025-01-02T04:04:06.5+01:00 \n", 2) + frame("") + frame("no time\n") +
                             frame(std::string("2025-01-02T03:04:07Z a\0", 23));
  const std::vector<LogPiece> wanted = {{"2025-01-02T03:04:05.000000006Z", "one\n"},
                                        {"2025-01-02T04:04:06.5+01:00", "\n"},
                                        {"", "no time\n"},
                                        {"2025-01-02T03:04:07Z", std::string("a\0", 2)}};
  for (std::size_t step = 1; step <= stream.size(); ++step) {
    LogFrames frames;
    std::vector<LogFrame> out;
    for (std::size_t at = 0; at < stream.size(); at += step) {
      ASSERT_TRUE(frames.feed(std::string_view(stream).substr(at, step), out));
    }
    ASSERT_EQ(out.size(), wanted.size()) << step;
    for (std::size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i].piece, wanted[i]) << step;
    EXPECT_EQ(out[1].stream, 2);
    EXPECT_EQ(out[1].time, *parse_timestamp("2025-01-02T03:04:06.5Z"));
    EXPECT_FALSE(out[2].time);
    EXPECT_FALSE(frames.in_frame());
  }
}

TEST(LogFrames, InvalidFramesAreRefused) {
  LogFrames frames;
  std::vector<LogFrame> out;
  EXPECT_FALSE(frames.feed("<html><body>not what was asked for", out));
}

TEST(LogMark, KnowsWhatWasSeenAndNothingElse) {
  const auto at = [](int second) { return LogFrame{1, Timestamp(std::chrono::seconds(second)), {}}; };
  LogMark mark;
  EXPECT_FALSE(mark.knows(at(1)));
  for (const int second : {1, 2, 2}) mark.note(at(second));
  EXPECT_EQ(mark.time(), Timestamp(std::chrono::seconds(2)));
  EXPECT_TRUE(mark.knows(at(1)));
  EXPECT_TRUE(mark.knows(at(2)));
  EXPECT_TRUE(mark.knows(at(2)));
  EXPECT_FALSE(mark.knows(at(2))) << "a third of the same moment";
  EXPECT_FALSE(mark.knows(at(3)));
}

}  // namespace
}  // namespace osb::runtime
