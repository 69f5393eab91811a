#include "cli/transfer/transfer_progress.h"

#include <gtest/gtest.h>

namespace osb::cli {
namespace {

using namespace std::chrono_literals;

TEST(TransferProgress, AKnownTotalMakesABar) {
  EXPECT_EQ(progress_line("big", 512 << 20, 1 << 30, 2s),
            "big  [##########----------]   50%  512.0 MiB of 1.0 GiB  256.0 MiB/s");
}

TEST(TransferProgress, WithoutATotalThereIsTheSum) {
  EXPECT_EQ(progress_line("dir", 2048, std::nullopt, 1s), "dir  2.0 KiB  2.0 KiB/s");
  EXPECT_EQ(progress_line("dir", 0, 0, 0s), "dir  0 B");
}

TEST(TransferProgress, MoreThanAnnouncedStaysInTheBar) {
  EXPECT_TRUE(progress_line("x", 300, 100, 0s).starts_with("x  [####################]  100%"));
}

}  // namespace
}  // namespace osb::cli
