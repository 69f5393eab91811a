#include "cli/command/remote_run.h"

#include <csignal>

#include <gtest/gtest.h>

namespace osb::cli {
namespace {

TEST(RemoteRun, KnowsTheSignalThatExecdNames) {
  EXPECT_EQ(signal_of_text("signal: killed"), SIGKILL);
  EXPECT_EQ(signal_of_text("signal: segmentation fault (core dumped)"), SIGSEGV);
  EXPECT_EQ(signal_of_text("exit status 3"), 0);
  EXPECT_EQ(signal_of_text("signal: never heard of"), 0);
}

}  // namespace
}  // namespace osb::cli
