#include "cli/transfer/remote_path.h"

#include <gtest/gtest.h>

namespace osb::cli {
namespace {

TEST(RemotePath, AnIdAndAColonMakeItRemote) {
  const auto remote = parse_remote_path("ab-1:/tmp/a:b");
  ASSERT_TRUE(remote);
  EXPECT_EQ(remote->sandbox, "ab-1");
  EXPECT_EQ(remote->path, "/tmp/a:b");
  EXPECT_EQ(parse_remote_path("ab:")->path, "");
}

TEST(RemotePath, EverythingElseIsLocal) {
  for (const char* text : {"file", "/a:b", "./a:b", "../a:b", "dir/a:b", ":x", "-", ""}) {
    EXPECT_FALSE(parse_remote_path(text)) << text;
  }
}

TEST(RemotePath, TheLastPartIsWhatACopyIsNamed) {
  EXPECT_EQ(last_part("/a/b"), "b");
  EXPECT_EQ(last_part("/a/b/"), "b");
  EXPECT_EQ(last_part("b"), "b");
  for (const char* text : {"/", "", ".", "/a/.", ".."}) EXPECT_EQ(last_part(text), "") << text;
  EXPECT_EQ(join_path("/", "b"), "/b");
  EXPECT_EQ(join_path("/a", "b"), "/a/b");
}

}  // namespace
}  // namespace osb::cli
