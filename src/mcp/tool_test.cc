#include "mcp/tool.h"

#include <set>

#include <gtest/gtest.h>

#include "mcp/schema.h"

namespace osb::mcp {
namespace {

TEST(Tools, HaveDifferentNamesAndUsableSchemas) {
  std::set<std::string> names;
  for (const Tool& tool : all_tools()) {
    EXPECT_TRUE(names.insert(tool.name).second) << tool.name;
    EXPECT_NE(tool.run, nullptr) << tool.name;
    EXPECT_FALSE(tool.title.empty() || tool.description.empty()) << tool.name;
    EXPECT_FALSE(tool.hints.read_only && tool.hints.destructive) << tool.name;
    // Every default fits its own schema.
    for (const auto& [name, rule] : tool.input.at("properties").as_object()) {
      const json::value* fallback = rule.as_object().if_contains("default");
      if (fallback != nullptr) EXPECT_TRUE(conform(rule.as_object(), *fallback)) << tool.name << "/" << name;
    }
  }
}

}  // namespace
}  // namespace osb::mcp
