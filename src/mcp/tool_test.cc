#include "mcp/tool.h"

#include <set>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <gtest/gtest.h>

#include "mcp/schema.h"

namespace osb::mcp {
namespace {

std::size_t list_bytes(const std::vector<Tool>& tools, bool published) {
  json::array all;
  for (const Tool& tool : tools) all.push_back(describe(tool, published));
  return encode_result(1, {{"tools", std::move(all)}}).size();
}

std::string text_of(const json::object& reply) {
  return std::string(reply.at("content").as_array().front().at("text").as_string());
}

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

TEST(Tools, TheirDescriptionsAreShort) {
  EXPECT_LE(list_bytes(common_tools(), false), 20'000u) << "the answer to tools/list, which models read as a whole";
  EXPECT_LE(list_bytes(all_tools(), false), 30'000u);
  EXPECT_LT(common_tools().size(), all_tools().size());
}

TEST(Tools, PlainResultsAreCompactAndOnce) {
  const Tool tool{.name = "t", .title = "T", .description = "d"};
  const ToolResult result = json::object{{"a", nullptr}, {"b", json::object{{"c", nullptr}, {"d", "x\ny"}}}};
  const json::object reply = encode_tool_result(tool, result, {});
  EXPECT_EQ(text_of(reply), R"({"b":{"d":"x\ny"}})");
  EXPECT_FALSE(reply.contains("structuredContent"));
  EXPECT_FALSE(describe(tool, false).contains("outputSchema"));
  const json::object published = encode_tool_result(tool, result, {.published = true});
  EXPECT_EQ(published.at("structuredContent"), *result);
  EXPECT_EQ(json::parse(text_of(published)), *result);
  EXPECT_TRUE(describe(tool, true).contains("outputSchema"));
}

TEST(Tools, NoReplyIsLongerThanItsLimit) {
  const Tool tool{.name = "t", .title = "T", .description = "d"};
  for (const char* text : {"x", "\n", "\"", "\x01", "三"}) {
    std::string much;
    while (much.size() < 200'000) much += text;
    ToolResult ok = json::object{{"text", much}};
    ToolResult failed = tool_failure("CODE", much);
    for (const ToolResult& result : {ok, failed}) {
      for (const std::size_t limit : {4096u, 65'536u}) {
        const json::object reply = encode_tool_result(tool, result, {.max_bytes = limit});
        const std::size_t size = json::serialize(reply).size();
        EXPECT_LE(size, limit);
        EXPECT_GT(size, limit / 4);
        EXPECT_NE(text_of(reply).find("bytes left out"), std::string::npos);
      }
    }
  }
}

}  // namespace
}  // namespace osb::mcp
