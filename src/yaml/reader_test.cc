#include "yaml/reader.h"

#include <boost/json/serialize.hpp>
#include <gtest/gtest.h>

namespace osb::yaml {
namespace {

std::string as_json(const std::string& yaml) {
  const auto value = parse(yaml);
  return value ? boost::json::serialize(*value) : "error: " + value.error().message;
}

TEST(YamlReaderTest, YamlBecomesJson) {
  EXPECT_EQ(as_json("a: 1\nb: [x, 'y', true, ~]\nc:\n  d: \"7\"\n  e: -1.5\n"),
            R"({"a":1,"b":["x","y",true,null],"c":{"d":"7","e":-1.5E0}})");
  EXPECT_EQ(as_json(R"({"a": [1, "two"]})"), R"({"a":[1,"two"]})") << "JSON is YAML";
}

TEST(YamlReaderTest, WordsThatOnlyLookLikeNumbersStayWords) {
  EXPECT_EQ(as_json("[1-2, e, 1.2.3, '12', 0x10]"), R"(["1-2","e","1.2.3","12","0x10"])");
}

TEST(YamlReaderTest, AnchorsTagsAndSeveralDocumentsAreRefused) {
  for (const char* bad :
       {"a: &x 1\nb: *x", "a: !!binary x", "a: !!set {x}", "a: &x [1]", "a: 1\n---\nb: 2", "a: [", "? [a]\n: b", "\tx: 1"}) {
    EXPECT_TRUE(as_json(bad).starts_with("error: ")) << bad << ": " << as_json(bad);
  }
}

}  // namespace
}  // namespace osb::yaml
