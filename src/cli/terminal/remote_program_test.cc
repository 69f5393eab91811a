#include "cli/terminal/remote_program.h"

#include <gtest/gtest.h>

namespace osb::cli {
namespace {

TEST(RemoteProgram, EveryWordArrivesAsItIs) {
  EXPECT_EQ(piped_options({.argv = {"cat", "-n"}}, true).command, "exec cat -n");
  EXPECT_EQ(piped_options({.argv = {"echo", "a b", "it's", "$HOME", ""}}, false).command,
            R"(exec echo 'a b' 'it'"'"'s' '$HOME' '' </dev/null)");
}

TEST(RemoteProgram, ATerminalHasATypeAndAShell) {
  EXPECT_EQ(terminal_options({.argv = {"vi"}}, "screen").command, "TERM=screen; export TERM; exec vi");
  EXPECT_TRUE(terminal_options({.argv = {}}, "").command.starts_with("TERM=xterm; export TERM; if command -v bash"));
}

TEST(RemoteProgram, UsersAreNamesOrNumbers) {
  EXPECT_EQ(parse_user("www-data")->name, "www-data");
  EXPECT_EQ(parse_user("1000")->uid, 1000u);
  EXPECT_EQ(parse_user("1000")->name, "");
  EXPECT_EQ(parse_user("1000:100")->gid, 100u);
  EXPECT_FALSE(parse_user("")->uid);
  for (const char* text : {"www-data:www-data", "1:x", ":1", "1:"}) EXPECT_FALSE(parse_user(text)) << text;
}

}  // namespace
}  // namespace osb::cli
