#include "cli/read_input.h"

#include <fstream>

#include <boost/json/serialize.hpp>
#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace osb::cli {
namespace {

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
