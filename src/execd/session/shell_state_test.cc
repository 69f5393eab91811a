#include "execd/session/shell_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace osb::execd {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using namespace std::string_view_literals;

TEST(SplitDeclarations, FindsNamesAndEndsBehindQuotes) {
  const std::string_view text =
      "declare -x A=\"line\nwith \\\" and \\\\\"\n"
      "declare -- B=$'it\\'s\\n'\n"
      "declare -a C=([0]=\"x\ny\" [1]=\"'\")\n"
      "declare -Ax D=([\"a b\"]=\"1\" )\n"
      "declare -x E\n"
      "export F='it'\"'\"'s\nme'\n"
      "export G='it'\\''s'";
  const auto all = split_declarations(text);
  ASSERT_TRUE(all);
  ASSERT_EQ(all->size(), 7U);
  const char* names = "ABCDEFG";
  const bool exported[] = {true, false, false, true, true, true, true};
  for (std::size_t i = 0; i < all->size(); ++i) {
    EXPECT_EQ((*all)[i].name, std::string(1, names[i]));
    EXPECT_EQ((*all)[i].exported, exported[i]) << names[i];
  }
  EXPECT_EQ((*all)[2].text, "declare -a C=([0]=\"x\ny\" [1]=\"'\")");
  EXPECT_EQ((*all)[6].text, "export G='it'\\''s'");
}

TEST(SplitDeclarations, RefusesWhatIsCutOrIsNoDeclaration) {
  for (const std::string_view text : {"declare -x A=\"open"sv, "declare -x A=$'open\\'"sv, "echo hello"sv,
                                      "declare -x"sv, "declare -x 1A=\"\""sv, "export A-B='x'"sv, "\n"sv}) {
    EXPECT_FALSE(split_declarations(text)) << text;
  }
}

TEST(ShellState, TakesACompleteDumpOnly) {
  ShellState state("/start");
  const std::string dump("/tmp/x\n\0f () { :; }\n\0declare -x A=\"1\"\n\0END"sv);
  for (std::size_t cut = 0; cut < dump.size(); ++cut) {
    EXPECT_FALSE(state.accept(std::string_view(dump).substr(0, cut))) << cut;
  }
  EXPECT_EQ(state.cwd(), "/start");
  EXPECT_EQ(state.restore_script({{"HOME", "/"}}), "");
  EXPECT_TRUE(state.accept(dump));
  EXPECT_EQ(state.cwd(), "/tmp/x");
  EXPECT_EQ(state.restore_script({{"HOME", "/"}, {"A", "0"}, {"not.a.name", ""}, {"PWD", "/"}}),
            "unset -v HOME\ndeclare -x A=\"1\"\nf () { :; }\n");
}

TEST(ShellState, LeavesOutWhatAShellSetsItself) {
  ShellState state("/");
  EXPECT_TRUE(
      state.accept("/\n\0\0declare -i RANDOM=\"1\"\ndeclare -- PS1=\"$ \"\n"
                   "declare -x OPENSANDBOX_COMMAND_ID=\"x\"\ndeclare -- mine=\"2\"\n\0END"sv));
  EXPECT_EQ(state.restore_script({}), "declare -- mine=\"2\"\n");
}

TEST(ShellState, LocalsOfAFunctionThatExitedAreNotGlobals) {
  ShellState state("/");
  ASSERT_TRUE(state.accept("/\n\0\0declare -- kept=\"old\"\ndeclare -a FUNCNAME\n\0END"sv));
  ASSERT_TRUE(
      state.accept("/\n\0\0declare -a FUNCNAME=([0]=\"f\")\ndeclare -- kept=\"local\"\n"
                   "declare -- other=\"local\"\ndeclare -x E=\"new\"\n\0END"sv));
  const std::string script = state.restore_script({});
  EXPECT_THAT(script, HasSubstr("declare -x E=\"new\""));
  EXPECT_THAT(script, HasSubstr("declare -- kept=\"old\""));
  EXPECT_THAT(script, Not(HasSubstr("local")));
}

}  // namespace
}  // namespace osb::execd
