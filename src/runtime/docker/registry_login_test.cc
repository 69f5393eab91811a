#include "runtime/docker/registry_login.h"

#include <fstream>

#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace osb::runtime {
namespace {

class RegistryLoginTest : public ::testing::Test {
 protected:
  void write(const std::string& text) { std::ofstream(file()) << text; }
  std::filesystem::path file() const { return directory_ / "config.json"; }
  osb::testing::TempDir directory_;
};

TEST_F(RegistryLoginTest, TheRequestsOwnWins) {
  write(R"({"auths":{"r.example":{"auth":"YTpi"}}})");
  // {"username":"u","password":"p?>"}, with the digits of URLs
  EXPECT_EQ(registry_auth("r.example/x", api::ImageLogin{"u", "p?>"}, file()),
            "eyJ1c2VybmFtZSI6InUiLCJwYXNzd29yZCI6InA_PiJ9");
}

TEST_F(RegistryLoginTest, ElseTheDockerConfigurationHasIt) {
  write(R"({"auths":{"r.example":{"auth":"YTpi"},"https://index.docker.io/v1/":{"identitytoken":"t"}}})");
  // {"username":"a","password":"b"}
  EXPECT_EQ(registry_auth("r.example/x:1", std::nullopt, file()), "eyJ1c2VybmFtZSI6ImEiLCJwYXNzd29yZCI6ImIifQ==");
  EXPECT_FALSE(registry_auth("debian", std::nullopt, file())->empty());
  EXPECT_EQ(registry_auth("other.example/x", std::nullopt, file()), "");
}

TEST_F(RegistryLoginTest, WithoutAFileThereIsNone) {
  EXPECT_EQ(registry_auth("debian", std::nullopt, file()), "");
  write("{");
  EXPECT_FALSE(registry_auth("debian", std::nullopt, file()));
}

}  // namespace
}  // namespace osb::runtime
