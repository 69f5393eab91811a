#include "cli/command/shell_words.h"

#include <gtest/gtest.h>

namespace osb::cli {
namespace {

TEST(ShellWords, AreQuotedWhereAShellWouldChangeThem) {
  EXPECT_EQ(shell_join({"sh", "-lc", "echo a", "", "it's", "a=b", "$HOME", "x/y.z"}),
            R"(sh -lc 'echo a' '' 'it'"'"'s' a=b '$HOME' x/y.z)");
}

}  // namespace
}  // namespace osb::cli
