#include "image/registry_credentials.h"

#include <gtest/gtest.h>

namespace osb::image {
namespace {

TEST(RegistryCredentials, AreReadAsDockerLoginWritesThem) {
  constexpr const char* kFile = R"({"auths": {
      "r.example.com": {"auth": "dXNlcjpwYTpzcw=="},
      "r.example.com:5000": {"username": "u", "password": "p"},
      "https://index.docker.io/v1/": {"auth": "aHViOng="}}})";
  const auto packed = credentials_for("r.example.com", kFile);
  ASSERT_TRUE(packed && *packed);
  EXPECT_EQ((*packed)->username, "user");
  EXPECT_EQ((*packed)->password, "pa:ss");
  EXPECT_EQ((*credentials_for("r.example.com:5000", kFile))->password, "p");
  EXPECT_EQ((*credentials_for("docker.io", kFile))->username, "hub");
  EXPECT_FALSE(*credentials_for("other.example.com", kFile));
  EXPECT_FALSE(*credentials_for("r.example.com", "{}"));
}

TEST(RegistryCredentials, DamagedFilesAreRefusedWithoutTheirSecrets) {
  for (const char* text : {"", "[]", "{", R"({"auths": 1})", R"({"auths": {"r": 5}})", R"({"auths": {"r": {}}})",
                           R"({"auths": {"r": {"auth": "hunter2"}}})", R"({"auths": {"r": {"auth": "bm9jb2xvbg=="}}})",
                           R"({"auths": {"r": {"username": "u"}}})", R"({"auths": {"r": {"password": "hunter2"}}})"}) {
    const auto refused = credentials_for("r", text);
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(refused.error().code, Code::InvalidRequest) << text;
    EXPECT_EQ(refused.error().message.find("hunter2"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace osb::image
