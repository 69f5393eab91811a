#include "mcp/schema.h"

#include <boost/json/parse.hpp>
#include <gtest/gtest.h>

namespace osb::mcp {
namespace {

json::object sample() {
  return schema::arguments({
      {"name", schema::string("")},
      {"count", schema::with_default(schema::at_most(schema::at_least(schema::integer(""), 1), 9), 3)},
      {"env", schema::nullable(schema::string_map(""))},
      {"kind", schema::with_default(schema::one_of({"a", "b"}, ""), "a")},
      {"entries",
       schema::with_default(schema::list_of(schema::object({{"path", schema::string("")},
                                                            {"mode", schema::with_default(schema::integer(""), 755)}}),
                                            ""),
                            json::array())},
  });
}

TEST(Schema, FillsDefaultsAndTakesJsonInStrings) {
  const auto got = conform(sample(), json::parse(R"({"name":"x","count":4.0,"env":"{\"A\":\"1\"}",
      "entries":[{"path":"/p"},"{\"path\":\"/q\",\"mode\":700}"]})"));
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(*got, json::parse(R"({"name":"x","count":4,"env":{"A":"1"},"kind":"a",
      "entries":[{"path":"/p","mode":755},{"path":"/q","mode":700}]})"));
  // A string stays a string where a string is expected, with any contents.
  EXPECT_EQ(conform(sample(), json::parse(R"({"name":"{}"})"))->at("name"), "{}");
}

TEST(Schema, NamesWhatIsWrong) {
  struct {
    const char* given;
    const char* says;
  } rows[] = {
      {R"({})", "/name: is missing"},
      {R"({"name":null})", "/name: expected a string"},
      {R"({"name":7})", "/name: expected a string"},
      {R"({"name":"x","count":0})", "/count: expected at least 1"},
      {R"({"name":"x","count":10})", "/count: expected at most 9"},
      {R"({"name":"x","count":1.5})", "/count: expected an integer"},
      {R"({"name":"x","count":"3"})", "/count: expected an integer"},
      {R"({"name":"x","count":18446744073709551615})", "/count: expected an integer"},
      {R"({"name":"x","env":["A"]})", "/env: expected an object"},
      {R"({"name":"x","env":{"A":1}})", "/env/A: expected a string"},
      {R"({"name":"x","kind":"c"})", "/kind: expected one of [\"a\",\"b\"]"},
      {R"({"name":"x","entries":{}})", "/entries: expected a list"},
      {R"({"name":"x","entries":[{}]})", "/entries/0/path: is missing"},
      {R"({"name":"x","more":1})", "/more: there is no such argument"},
      {R"([])", "arguments: expected an object"},
  };
  for (const auto& row : rows) {
    const auto got = conform(sample(), json::parse(row.given));
    ASSERT_FALSE(got) << row.given;
    EXPECT_EQ(got.error().message, row.says) << row.given;
  }
}

TEST(Schema, TheCompactFormTakesTheSameArguments) {
  const json::object full = schema::arguments(
      {{"path", schema::string("")},
       {"rules",
        schema::nullable(schema::list_of(schema::object({{"to", schema::nullable(schema::integer("n"))}}), "r"))},
       {"deep", schema::with_default(schema::boolean(""), false)}});
  const json::value expected = json::parse(
      R"({"type":"object","properties":{"path":{"type":"string"},"rules":{"description":"r","type":"array","items":)"
      R"({"type":"object","properties":{"to":{"description":"n","type":"integer"}}}},)"
      R"("deep":{"type":"boolean","default":false}},"required":["path"],"additionalProperties":false})");
  EXPECT_EQ(json::value(schema::compact(full)), expected);
  EXPECT_TRUE(conform(full, json::parse(R"({"path":"/","rules":null})"))) << "null stands for not given";
}

}  // namespace
}  // namespace osb::mcp
