#include "mcp/schema.h"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <gtest/gtest.h>

#include "mcp/encoding.h"
#include "mcp/resources.h"
#include "mcp/tool.h"
#include "mcp/tools/files.h"

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
  // A string stays one where a string is expected, whatever it holds.
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

TEST(Encoding, Base64ThereAndBack) {
  for (const std::string& bytes :
       {std::string(), std::string("a"), std::string("ab"), std::string("abc"), std::string("\0\xff\xfe\x80", 4)}) {
    EXPECT_EQ(decode_base64(encode_base64(bytes)), bytes);
  }
  EXPECT_EQ(encode_base64("light work."), "bGlnaHQgd29yay4=");
  EXPECT_EQ(decode_base64("bGln\naHQ=\r\n"), "light");
  for (const char* wrong : {"a", "ab", "abc", "=abc", "ab=c", "ab c", "a===", "====", "ab-_"}) {
    EXPECT_EQ(decode_base64(wrong), std::nullopt) << wrong;
  }
}

TEST(Encoding, TextOfEveryKind) {
  EXPECT_EQ(to_text("\xfc", Encoding::Latin1, false), "\xc3\xbc");
  EXPECT_EQ(to_bytes("\xc3\xbc", Encoding::Latin1), "\xfc");
  EXPECT_FALSE(to_bytes("\xe4\xb8\x89", Encoding::Latin1));
  EXPECT_FALSE(to_text("a\xff", Encoding::Utf8, false));
  EXPECT_EQ(to_text("a\xff", Encoding::Utf8, true), "a\xef\xbf\xbd");
  EXPECT_FALSE(to_text("\xc3\xbc", Encoding::Ascii, false));
  EXPECT_FALSE(to_bytes("!", Encoding::Base64));
  EXPECT_TRUE(parse_encoding("UTF_8"));
  EXPECT_FALSE(parse_encoding("ebcdic"));
}

TEST(Encoding, CutsBetweenCharacters) {
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
    tools::cut_at_character(row.text);
    EXPECT_EQ(row.text, row.want);
  }
}

TEST(Resources, UrisThereAndBack) {
  const std::string uri = make_resource_uri("some-id", "/root/\xc3\xbc a%b?#.txt");
  EXPECT_EQ(uri, "sandbox://some-id/root/%C3%BC%20a%25b%3F%23.txt");
  const auto parsed = parse_resource_uri(uri);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->sandbox_id, "some-id");
  EXPECT_EQ(parsed->path, "/root/\xc3\xbc a%b?#.txt");
  EXPECT_EQ(parse_resource_uri("sandbox://id//etc/passwd")->path, "/etc/passwd");
  EXPECT_EQ(parse_resource_uri("sandbox://id")->path, "/");
  for (const char* wrong :
       {"", "file:///etc", "sandbox://", "sandbox:///x", "sandbox://id/%zz", "sandbox://id/%00", "sandbox://id/%ff"}) {
    EXPECT_FALSE(parse_resource_uri(wrong)) << wrong;
  }
}

TEST(Resources, PagesOfLists) {
  json::array all;
  for (int i = 0; i < 250; ++i) all.emplace_back(i);
  auto page = page_of("items", all, {});
  ASSERT_TRUE(page);
  EXPECT_EQ(page->at("items").as_array().size(), 100U);
  page = page_of("items", all, {{"cursor", page->at("nextCursor")}});
  page = page_of("items", all, {{"cursor", page->at("nextCursor")}});
  ASSERT_TRUE(page);
  EXPECT_EQ(page->at("items").as_array().size(), 50U);
  EXPECT_FALSE(page->contains("nextCursor"));
  for (const json::value& wrong :
       {json::value("x"), json::value(""), json::value("-1"), json::value("251"), json::value(7)}) {
    EXPECT_FALSE(page_of("items", all, {{"cursor", wrong}})) << json::serialize(wrong);
  }
}

}  // namespace
}  // namespace osb::mcp
