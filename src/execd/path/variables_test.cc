#include "execd/path/variables.h"

#include <gtest/gtest.h>

namespace osb::execd {
namespace {

TEST(ExpandVariables, ReplacesWhatIsDefinedAndTellsTheFirstThatIsNot) {
  const Environment env = {{"A", "1"}, {"B_2", "$A"}, {"EMPTY", ""}};
  struct {
    const char* text;
    const char* expanded;
    const char* missing;
  } rows[] = {
      {"", "", ""},
      {"plain", "plain", ""},
      {"$A", "1", ""},
      {"x${A}y$A.z", "x1y1.z", ""},
      {"$B_2", "$A", ""},  // once, not again
      {"[$EMPTY]", "[]", ""},
      {"$NONE-$OTHER", "-", "NONE"},
      {"${NONE}", "", "NONE"},
      {"$", "$", ""},
      {"$$A", "$1", ""},
      {"$1 ${1} ${} ${A ${A-x}", "$1 ${1} ${} ${A ${A-x}", ""},
  };
  for (const auto& row : rows) {
    const Expanded expanded = expand_variables(row.text, env);
    EXPECT_EQ(expanded.text, row.expanded) << row.text;
    EXPECT_EQ(expanded.missing, row.missing) << row.text;
  }
}

}  // namespace
}  // namespace osb::execd
