#include "mcp/tools/files.h"

#include <gtest/gtest.h>

namespace osb::mcp::tools {
namespace {

TEST(Files, CutsBetweenCharacters) {
  struct {
    std::string text, want;
  } rows[] = {{"", ""},
              {"ab", "ab"},
              {"a\xc3\xbc", "a\xc3\xbc"},
              {"a\xc3", "a"},
              {"a\xe4\xb8", "a"},
              {"a\xf0\x9f\x98", "a"},
              {"a\xf0\x9f\x98\x80", "a\xf0\x9f\x98\x80"},
              {"\x80\x80\x80\x80", "\x80\x80\x80\x80"}};
  for (auto& row : rows) {
    cut_at_character(row.text);
    EXPECT_EQ(row.text, row.want);
  }
}

}  // namespace
}  // namespace osb::mcp::tools
