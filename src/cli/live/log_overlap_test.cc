#include "cli/live/log_overlap.h"

#include <gtest/gtest.h>

namespace osb::cli {
namespace {

TEST(LogOverlap, AddedLinesAreNew) {
  EXPECT_EQ(new_part("", "a\n"), "a\n");
  EXPECT_EQ(new_part("a\n", "a\nb\n"), "b\n");
  EXPECT_EQ(new_part("a\n", "a\n"), "");
}

TEST(LogOverlap, AWindowThatHasMovedOnOverlaps) {
  EXPECT_EQ(new_part("1\n2\n3\n", "2\n3\n4\n"), "4\n");
  EXPECT_EQ(new_part("1\n2\n3\n", "3\n4\n5\n"), "4\n5\n");
}

TEST(LogOverlap, NothingInCommonIsAllNew) { EXPECT_EQ(new_part("1\n2\n", "8\n9\n"), "8\n9\n"); }

TEST(LogOverlap, AShorterEndOfTheSameLogHasNothingNew) { EXPECT_EQ(new_part("1\n2\n3\n", "2\n3\n"), ""); }

}  // namespace
}  // namespace osb::cli
