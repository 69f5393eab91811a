#include "cli/code/input_block.h"

#include <vector>

#include <gtest/gtest.h>

namespace osb::cli {
namespace {

// The number of the line that made it whole, from 1; 0: none did.
int whole_at(std::string_view language, const std::vector<std::string_view>& lines) {
  InputBlock block(language);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (block.add(lines[i])) return static_cast<int>(i) + 1;
  }
  return 0;
}

TEST(InputBlock, OneLineIsWhole) {
  for (const std::string_view language : {"python", "bash", "go", "java", "javascript", "typescript"}) {
    EXPECT_EQ(whole_at(language, {"x"}), 1) << language;
  }
  EXPECT_EQ(whole_at("python", {"print('(', \"[\")  # ("}), 1);
  EXPECT_EQ(whole_at("javascript", {"'{' + \"(\" // {"}), 1);
  EXPECT_EQ(whole_at("python", {"x = 'never closed"}), 1) << "Python says what is wrong";
}

TEST(InputBlock, BracketsAndStringsAreClosedFirst) {
  EXPECT_EQ(whole_at("python", {"x = [1,", "2]"}), 2);
  EXPECT_EQ(whole_at("python", {"'''a", "", "b'''"}), 3);
  EXPECT_EQ(whole_at("javascript", {"`a", "b`"}), 2);
  EXPECT_EQ(whole_at("java", {"int f() {", "  return 1;", "}"}), 3);
  EXPECT_EQ(whole_at("go", {"/* (", "*/ x"}), 2);
  EXPECT_EQ(whole_at("python", {"x = 1 + \\", "2"}), 2);
}

TEST(InputBlock, AnEmptyLineEndsABlockOfPython) {
  EXPECT_EQ(whole_at("python", {"def f(a: int):", "  return {", "    1: 2}", ""}), 4);
  EXPECT_EQ(whole_at("python", {"@decorated", "def f():", "  pass", ""}), 4);
  EXPECT_EQ(whole_at("python", {"x = {1: 2}"}), 1);
  EXPECT_EQ(whole_at("python", {"items[1:]"}), 1);
}

TEST(InputBlock, ShellCommandsAreClosedByTheirWord) {
  EXPECT_EQ(whole_at("bash", {"for i in 1 2; do", "echo $i # done", "done"}), 3);
  EXPECT_EQ(whole_at("bash", {"if true; then echo fine; fi"}), 1);
  EXPECT_EQ(whole_at("bash", {"echo 'a", "b'"}), 2);
  EXPECT_EQ(whole_at("bash", {"f() {", "  echo", "}"}), 3);
}

TEST(InputBlock, TwoEmptyLinesEndAnything) {
  EXPECT_EQ(whole_at("javascript", {"f(", "", ""}), 3);
  InputBlock block("python");
  EXPECT_FALSE(block.add("f("));
  block.clear();
  EXPECT_TRUE(block.empty());
  EXPECT_TRUE(block.add("1"));
  EXPECT_EQ(block.text(), "1\n");
}

}  // namespace
}  // namespace osb::cli
