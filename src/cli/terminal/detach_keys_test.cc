#include "cli/terminal/detach_keys.h"

#include <gtest/gtest.h>

namespace osb::cli {
namespace {

DetachKeys keys(std::string_view text) { return DetachKeys::parse(text).value(); }

TEST(DetachKeys, TheSequenceDetachesAndTheRestPasses) {
  DetachKeys detach = keys("ctrl-p,ctrl-q");
  std::string out;
  EXPECT_FALSE(detach.feed("ls\r", out));
  EXPECT_TRUE(detach.feed("x\x10\x11y", out));
  EXPECT_EQ(out, "ls\rx");
}

TEST(DetachKeys, ASequenceMayComeInPieces) {
  DetachKeys detach = keys("ctrl-p,ctrl-q");
  std::string out;
  EXPECT_FALSE(detach.feed("\x10", out));
  EXPECT_EQ(out, "");
  EXPECT_TRUE(detach.feed("\x11", out));
  EXPECT_EQ(out, "");
}

TEST(DetachKeys, KeysThatOnlyLookLikeItAreSent) {
  DetachKeys detach = keys("ctrl-p,ctrl-q");
  std::string out;
  EXPECT_FALSE(detach.feed("\x10", out));
  EXPECT_FALSE(detach.feed("a", out));
  EXPECT_EQ(out,
            "\x10"
            "a");
}

TEST(DetachKeys, ARepeatedBeginningDoesNotHideTheSequence) {
  DetachKeys detach = keys("a,a,b");
  std::string out;
  EXPECT_TRUE(detach.feed("aaab", out));
  EXPECT_EQ(out, "a");
}

TEST(DetachKeys, NoneLetsEverythingPass) {
  DetachKeys detach = keys("none");
  std::string out;
  EXPECT_FALSE(detach.feed("\x10\x11", out));
  EXPECT_EQ(out, "\x10\x11");
}

TEST(DetachKeys, NonsenseIsNamed) {
  for (const char* text : {"ctrl-", "ctrl-pp", "ctrl-p,,ctrl-q", "escape", "ctrl-1"}) {
    EXPECT_FALSE(DetachKeys::parse(text)) << text;
  }
}

}  // namespace
}  // namespace osb::cli
