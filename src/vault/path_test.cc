#include "vault/path.h"

#include <gtest/gtest.h>

namespace osb::vault {
namespace {

TEST(RequestPath, EscapesOfPlainCharactersAreDecodedForTheMatch) {
  EXPECT_EQ(read_path("/%761/%2fx/%2Fy").normal, "/v1/%2Fx/%2Fy");
  EXPECT_EQ(read_path("/a%2Fb").decoded, "/a/b");
}

TEST(RequestPath, PathsThatServersReadInTwoWaysAreAmbiguous) {
  for (const char* path :
       {"/v1/../admin", "/v1/..", "/v1/./x", "/v1/%2e%2e/admin", "/v1/%2E./admin", "/v1/%252e%252e/x", "/v1/..%2fadmin",
        "/v1/x%252fy", "/v1\\..\\admin", "/v1/%5cadmin", "/v1/%255cadmin", "/v1/..;/admin", "/v1/..;x=y/admin",
        "/v1/%00", "/v1/%0d%0ax", "/v1/%zz", "/v1/%2", "/v1/x#y", "/v1/%2525252525252525252e%2e"}) {
    EXPECT_TRUE(read_path(path).ambiguous) << path;
  }
}

TEST(RequestPath, OrdinaryPathsAreNotAmbiguous) {
  for (const char* path : {"/", "/v1/x", "/@scope%2fname", "/v1//x", "/v1/..x/y..", "/v1/...", "/a%20b", "/%E2%82%AC",
                           "/v1/x;y=z", "/100%25"}) {
    EXPECT_FALSE(read_path(path).ambiguous) << path;
  }
}

TEST(PathPattern, StarAtTheEndIsAPrefixAndEverythingElseIsEqual) {
  EXPECT_TRUE(path_matches("/v1/*", "/v1/"));
  EXPECT_TRUE(path_matches("/v1/*", "/v1/x/y"));
  EXPECT_FALSE(path_matches("/v1/*", "/v1"));
  EXPECT_TRUE(path_matches("/v1", "/v1"));
  EXPECT_FALSE(path_matches("/v1", "/v1/"));
  EXPECT_FALSE(path_matches("/a*b", "/axb"));
}

TEST(PathPattern, OverlapIsWhatOnePathCouldMatch) {
  EXPECT_TRUE(paths_overlap("/v1/*", "/v1/users"));
  EXPECT_TRUE(paths_overlap("/v1/users", "/v1/*"));
  EXPECT_TRUE(paths_overlap("/*", "/v1/*"));
  EXPECT_TRUE(paths_overlap("/x", "/x"));
  EXPECT_FALSE(paths_overlap("/v1/*", "/v2/*"));
  EXPECT_FALSE(paths_overlap("/v1", "/v1/x"));
}

}  // namespace
}  // namespace osb::vault
