#include "api/json.h"

#include <gtest/gtest.h>

namespace osb::api {
namespace {

json::value parsed(std::string_view text) {
  auto value = parse_json(text);
  EXPECT_TRUE(value) << value.error().message;
  return value.value_or(nullptr);
}

TEST(ParseJson, ReadsAValueOrSaysWhereItStopped) {
  EXPECT_TRUE(parse_json(" {\"a\":[1,2]} "));
  EXPECT_TRUE(parse_json("null"));
  EXPECT_TRUE(parse_json("12"));
  EXPECT_EQ(parse_json("").error().message, "body: empty, expected JSON");
  EXPECT_EQ(parse_json(" \n").error().message, "body: empty, expected JSON");
  EXPECT_NE(parse_json("{\"a\":}").error().message.find("invalid JSON at byte 5"), std::string::npos)
      << parse_json("{\"a\":}").error().message;
  for (const char* text : {"{", "[1,", "{\"a\":1", "\"abc", "tru", "{'a':1}", "[1,]", "NaN", "// x\n1", "\"\n\""}) {
    EXPECT_FALSE(parse_json(text)) << text;
    EXPECT_FALSE(parse_json(text, {.ignore_trailing = true})) << text;
  }
}

TEST(ParseJson, TrailingBytesAreRefusedOrIgnored) {
  EXPECT_EQ(parse_json("{} x").error().message, "body: unexpected data after the value, at byte 3");
  EXPECT_FALSE(parse_json("{}{}"));
  EXPECT_FALSE(parse_json("01"));
  EXPECT_TRUE(parse_json("{}\r\n"));
  for (const std::string_view text : {"{} x", "{}{}", "{\"a\":1}\xff\xfe", "[1] ]", "null null"}) {
    EXPECT_TRUE(parse_json(text, {.ignore_trailing = true})) << text;
  }
}

TEST(ParseJson, InvalidUtf8IsNamedByItsOffset) {
  EXPECT_EQ(parse_json("{\"a\":\"b\xff\"}").error().message, "body: invalid UTF-8 at byte 7");
  EXPECT_EQ(parse_json("\"\xED\xA0\x80\"").error().message, "body: invalid UTF-8 at byte 1");
  EXPECT_FALSE(parse_json("\"\xC0\xAF\""));
  EXPECT_TRUE(parse_json("\"\xF0\x9F\x98\x80\""));
}

TEST(ParseJson, DepthIsLimited) {
  const auto nested = [](std::size_t n) { return std::string(n, '[') + std::string(n, ']'); };
  EXPECT_TRUE(parse_json(nested(64)));
  EXPECT_EQ(parse_json(nested(65)).error().message, "body: nested deeper than 64");
  EXPECT_FALSE(parse_json(std::string(1 << 20, '[')));
  EXPECT_TRUE(parse_json(nested(3), {.max_depth = 3}));
  EXPECT_FALSE(parse_json(nested(4), {.max_depth = 3}));
}

TEST(LaxBool, TakesTheContractsWordsInAnyCase) {
  for (const char* text : {"true", "TRUE", "1", "yes", "On", "t", "Y"}) EXPECT_EQ(parse_lax_bool(text), true) << text;
  for (const char* text : {"false", "0", "No", "OFF", "f", "n"}) EXPECT_EQ(parse_lax_bool(text), false) << text;
  for (const char* text : {"", "2", "tru", "enabled", " true"}) EXPECT_EQ(parse_lax_bool(text), std::nullopt) << text;
}

TEST(Pointer, EscapesItsTwoSpecialCharacters) { EXPECT_EQ(join_pointer("/a", "b/c~d"), "/a/b~1c~0d"); }

TEST(ObjectReader, TakesFieldsAndNamesAWrongOneByItsPointer) {
  const json::value body = parsed(R"({"s":"x","n":5,"b":true,"null":null,"o":{"list":[{"k":7}]}})");
  ObjectReader r(body, {});
  EXPECT_EQ(r.required_string("s"), "x");
  EXPECT_EQ(r.optional_int64("n"), 5);
  EXPECT_EQ(r.optional_bool("b"), true);
  EXPECT_EQ(r.optional_string("null"), std::nullopt);
  EXPECT_EQ(r.optional_string("missing"), std::nullopt);
  EXPECT_TRUE(r.finish());
  r.object("o", [](ObjectReader& o) { o.array("list", [](ObjectReader& item) { item.optional_string("k"); }); });
  const auto done = r.finish();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message, "/o/list/0/k: expected a string");
  EXPECT_EQ(done.error().code, Code::InvalidRequest);
}

TEST(ObjectReader, FirstErrorWins) {
  const json::value body = parsed(R"({"a":1,"b":2})");
  ObjectReader r(body, {.reason = "BAD"});
  r.optional_string("a");
  r.optional_string("b");
  r.required_string("c");
  EXPECT_EQ(r.finish().error().message, "/a: expected a string");
  EXPECT_EQ(r.finish().error().reason, "BAD");
}

TEST(ObjectReader, SomethingElseThanAnObjectIsAnError) {
  for (const char* text : {"null", "[]", "\"x\"", "5"}) {
    const json::value body = parsed(text);
    ObjectReader r(body, {});
    EXPECT_EQ(r.optional_string("a"), std::nullopt);
    ASSERT_FALSE(r.finish()) << text;
    EXPECT_EQ(r.finish().error().message, "body: expected an object") << text;
  }
}

TEST(ObjectReader, RequiredMeansPresentAndNotEmpty) {
  for (const char* text : {"{}", R"({"a":null})", R"({"a":""})"}) {
    const json::value body = parsed(text);
    ObjectReader r(body, {});
    r.required_string("a");
    ASSERT_FALSE(r.finish()) << text;
    EXPECT_EQ(r.finish().error().message, "/a: required, and must not be empty");
  }
}

TEST(ObjectReader, StrictIntegersAreIntegers) {
  for (const char* text : {R"("5")", "5.0", "1e2", "true", "9223372036854775808", "[]"}) {
    const json::value body = parsed(std::string("{\"n\":") + text + "}");
    ObjectReader r(body, {});
    r.optional_int64("n");
    EXPECT_FALSE(r.finish()) << text;
  }
}

TEST(ObjectReader, LaxIntegersMayBeTextOrIntegralNumbers) {
  struct {
    const char* text;
    std::optional<std::int64_t> want;
  } rows[] = {
      {"120", 120},
      {R"("120")", 120},
      {"60.0", 60},
      {"60.5", {}},
      {R"("60.5")", {}},
      {R"("60.0")", 60},
      {R"(" 7 ")", 7},
      {R"("+7")", 7},
      {R"("-7")", -7},
      {R"("+-7")", {}},
      {R"("")", {}},
      {R"("7x")", {}},
      {R"("7.")", {}},
      {R"("0x7")", {}},
      {"true", {}},
      {"1e300", {}},
      {"9223372036854775808", {}},
      {R"("9223372036854775808")", {}},
      {R"("9223372036854775807")", ObjectReader::kMax},
  };
  for (const auto& row : rows) {
    const json::value body = parsed(std::string("{\"n\":") + row.text + "}");
    ObjectReader r(body, kLifecycleReading);
    EXPECT_EQ(r.optional_int64("n"), row.want) << row.text;
    EXPECT_EQ(r.finish().has_value(), row.want.has_value()) << row.text;
  }
}

TEST(ObjectReader, IntegersHaveARange) {
  const json::value body = parsed(R"({"n":59})");
  ObjectReader low(body, {});
  low.optional_int64("n", 60);
  EXPECT_EQ(low.finish().error().message, "/n: expected an integer of at least 60");
  ObjectReader both(body, {});
  both.required_int64("n", 1, 58);
  EXPECT_EQ(both.finish().error().message, "/n: expected an integer from 1 to 58");
  ObjectReader missing(body, {});
  missing.required_int64("m");
  EXPECT_EQ(missing.finish().error().message, "/m: required");
}

TEST(ObjectReader, BoolsAreStrictOrLax) {
  const json::value body = parsed(R"({"word":"Yes","one":1,"two":2})");
  ObjectReader strict(body, {});
  strict.optional_bool("one");
  EXPECT_FALSE(strict.finish());
  ObjectReader lax(body, kLifecycleReading);
  EXPECT_EQ(lax.optional_bool("word"), true);
  EXPECT_EQ(lax.optional_bool("one"), true);
  EXPECT_TRUE(lax.finish());
  lax.optional_bool("two");
  EXPECT_EQ(lax.finish().error().message, "/two: expected true or false");
}

TEST(ObjectReader, KeysMayDifferInCaseForExecd) {
  const json::value body = parsed(R"({"CWD":"/a","Command":"x","cwd":null})");
  ObjectReader r(body, kExecdReading);
  EXPECT_EQ(r.optional_string("cwd"), "/a");
  EXPECT_EQ(r.required_string("command"), "x");
  EXPECT_TRUE(r.finish());
  ObjectReader exact(body, {});
  EXPECT_EQ(exact.optional_string("command"), std::nullopt);
}

TEST(ObjectReader, SnakeCaseIsASecondSpellingForLifecycle) {
  const json::value body = parsed(R"({"mount_path":"/a","readOnly":true,"read_only":false})");
  ObjectReader r(body, kLifecycleReading);
  EXPECT_EQ(r.optional_string("mountPath"), "/a");
  EXPECT_EQ(r.optional_bool("readOnly"), true);
  EXPECT_TRUE(r.finish());
}

TEST(ObjectReader, MapsAndListsOfStrings) {
  const json::value body =
      parsed(R"({"envs":{"A":"1","B":null,"C":""},"list":["a","b"],"bad":{"x/y":5},"mixed":["a",1]})");
  ObjectReader r(body, {});
  const std::map<std::string, std::string> want = {{"A", "1"}, {"C", ""}};
  EXPECT_EQ(r.string_map("envs"), want);
  EXPECT_EQ(r.string_map("none"), std::nullopt);
  EXPECT_EQ(r.string_list("list"), (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(r.finish());
  ObjectReader refuse(body, {});
  refuse.string_map("envs", NullEntry::Refuse);
  EXPECT_EQ(refuse.finish().error().message, "/envs/B: expected a string");
  ObjectReader bad(body, {});
  bad.string_map("bad");
  EXPECT_EQ(bad.finish().error().message, "/bad/x~1y: expected a string");
  ObjectReader mixed(body, {});
  mixed.string_list("mixed");
  EXPECT_EQ(mixed.finish().error().message, "/mixed/1: expected a string");
}

TEST(ObjectReader, ForeignKeysAreEscapedInMessages) {
  const json::value body = parsed("{\"m\":{\"a\\nb\":1}}");
  ObjectReader r(body, {});
  r.string_map("m");
  EXPECT_EQ(r.finish().error().message, "/m/a\\nb: expected a string");
}

TEST(ReadArray, ReadsObjectsAndStopsAtTheFirstError) {
  const json::value body = parsed(R"([{"a":"x"},{"a":1},{"a":2}])");
  int seen = 0;
  const auto done = read_array(body, {}, [&](ObjectReader& r) {
    ++seen;
    r.optional_string("a");
  });
  EXPECT_EQ(seen, 2);
  EXPECT_EQ(done.error().message, "/1/a: expected a string");
  EXPECT_FALSE(read_array(parsed("{}"), {}, [](ObjectReader&) {}));
}

}  // namespace
}  // namespace osb::api
