#include "cli/terminal/remote_program.h"

#include <gtest/gtest.h>

namespace osb::cli {
namespace {

TEST(RemoteProgram, EveryWordArrivesAsItIs) {
  EXPECT_EQ(program_text({"cat", "-n"}, true), "exec cat -n");
  EXPECT_EQ(program_text({"echo", "a b", "it's", "$HOME", ""}, false),
            R"(exec echo 'a b' 'it'"'"'s' '$HOME' '' </dev/null)");
}

TEST(RemoteProgram, ATerminalHasATypeAndAShell) {
  EXPECT_EQ(terminal_text({"vi"}, "screen"), "TERM=screen; export TERM; exec vi");
  EXPECT_TRUE(terminal_text({}, "").starts_with("TERM=xterm; export TERM; if command -v bash"));
}

}  // namespace
}  // namespace osb::cli
