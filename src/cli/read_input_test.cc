#include "cli/read_input.h"

#include <fstream>

#include <boost/json/serialize.hpp>
#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace osb::cli {
namespace {

std::string as_json(const std::string& yaml) {
  const auto value = parse_yaml(yaml);
  return value ? boost::json::serialize(*value) : "error: " + value.error().message;
}

TEST(ReadInputTest, YamlBecomesJson) {
  EXPECT_EQ(as_json("a: 1\nb: [x, 'y', true, ~]\nc:\n  d: \"7\"\n  e: -1.5\n"),
            R"({"a":1,"b":["x","y",true,null],"c":{"d":"7","e":-1.5E0}})");
  EXPECT_EQ(as_json(R"({"a": [1, "two"]})"), R"({"a":[1,"two"]})") << "JSON is YAML";
}

TEST(ReadInputTest, WordsThatOnlyLookLikeNumbersStayWords) {
  EXPECT_EQ(as_json("[1-2, e, 1.2.3, '12', 0x10]"), R"(["1-2","e","1.2.3","12","0x10"])");
}

TEST(ReadInputTest, WhatCouldGrowOrDeceiveIsRefused) {
  for (const char* bad :
       {"a: &x 1\nb: *x", "a: !!binary x", "a: !!set {x}", "a: &x [1]", "a: 1\n---\nb: 2", "a: [", "? [a]\n: b"}) {
    EXPECT_TRUE(as_json(bad).starts_with("error: ")) << bad << ": " << as_json(bad);
  }
}

TEST(ReadInputTest, AFileThatIsMissingOrBrokenIsNamed) {
  const testing::TempDir dir;
  const std::string path = dir / "policy.json";
  EXPECT_NE(read_json_file(path, "network policy").error().message.find("policy.json"), std::string::npos);
  std::ofstream(path) << "{";
  EXPECT_NE(read_json_file(path, "network policy").error().message.find("network policy"), std::string::npos);
  std::ofstream(path) << R"({"a":1})";
  EXPECT_EQ(boost::json::serialize(read_json_file(path, "network policy").value()), R"({"a":1})");
}

}  // namespace
}  // namespace osb::cli
