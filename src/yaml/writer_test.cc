#include "yaml/writer.h"

#include <gtest/gtest.h>

#include "yaml/reader.h"

namespace osb::yaml {
namespace {

namespace json = boost::json;

TEST(YamlWriter, TextsReadBackAsTheSameData) {
  const json::value value = {
      {"text",
       {"plain",
        "with: colon",
        "- dash",
        "yes",
        "null",
        "3",
        "3.5",
        "1e3",
        "~",
        "",
        " lead",
        "trail ",
        "a#b",
        "two\nlines",
        "tab\t",
        "é",
        "0x1F",
        "2025-01-02T03:04:05Z",
        "{",
        "[x]",
        "&a",
        "*a",
        "!t",
        "%",
        "@",
        "`",
        "|",
        ">",
        "'q'",
        "\"q\"",
        "a\\b",
        "\x7F",
        "\xC2\x85\xC2\x9F",
        "\xEF\xBB\xBF",
        "\xEF\xBF\xBF"}},
      {"number", {1, -2, 0.5, 2.0}},
      {"other", {true, false, nullptr}},
      {"empty", {{"list", json::array{}}, {"map", json::object{}}}},
      {"nested", {{{"a", 1}, {"b", {1, {2, 3}}}}, {{"c", {{"d", "e"}}}}}},
      {"key with: colon", 1},
  };
  const std::string text = to_text(value, Keys::Sorted);
  const auto back = parse(text);
  ASSERT_TRUE(back) << back.error().message << "\n" << text;
  EXPECT_EQ(*back, value) << text;
  EXPECT_LT(text.find("empty:"), text.find("nested:")) << "keys are sorted";
}

TEST(YamlWriter, KeysStayInTheirOrderWhenAsked) {
  EXPECT_EQ(to_text({{"b", 1}, {"a", {1, {{"d", "x y"}, {"c", 0.5}}}}}, Keys::AsTheyAre),
            "b: 1\na:\n- 1\n- d: x y\n  c: 0.5\n");
}

}  // namespace
}  // namespace osb::yaml
