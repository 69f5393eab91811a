#include "cli/sandbox/volume_spec.h"

#include <filesystem>

#include <gtest/gtest.h>

namespace osb::cli {
namespace {

TEST(VolumeSpec, HostDirectoriesAndNamedVolumes) {
  const auto volumes = parse_volumes({"/a/b/:/data", "./x:/x:ro", "~/y:/y:rw", "cache:/c"}, "/home/u");
  ASSERT_TRUE(volumes) << volumes.error().message;
  ASSERT_EQ(volumes->size(), 4u);
  const auto& [slash, dot, tilde, named] = std::tie((*volumes)[0], (*volumes)[1], (*volumes)[2], (*volumes)[3]);
  EXPECT_EQ(slash.host->path, "/a/b");
  EXPECT_EQ(slash.mount_path, "/data");
  EXPECT_FALSE(slash.read_only);
  EXPECT_EQ(dot.host->path, (std::filesystem::current_path() / "x").string());
  EXPECT_TRUE(dot.read_only);
  EXPECT_EQ(tilde.host->path, "/home/u/y");
  EXPECT_FALSE(named.host);
  EXPECT_EQ(named.pvc->claim_name, "cache");
  EXPECT_EQ(named.pvc->create_if_not_exists, true);
  EXPECT_NE(slash.name, dot.name);
}

TEST(VolumeSpec, WrongSpecsAreUsageErrors) {
  for (const char* spec : {"", "/a", ":/a", "/a:b", "/a:/b:no", "a:"}) {
    const auto volumes = parse_volumes({spec}, "/");
    ASSERT_FALSE(volumes) << spec;
    EXPECT_EQ(volumes.error().exit_code, 2) << spec;
  }
}

}  // namespace
}  // namespace osb::cli
