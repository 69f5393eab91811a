#include "mcp/resources.h"

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <gtest/gtest.h>

namespace osb::mcp {
namespace {

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
