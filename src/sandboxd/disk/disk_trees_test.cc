#include "sandboxd/disk/disk_trees.h"

#include <fcntl.h>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "base/unique_fd.h"
#include "support/temp_dir.h"

namespace osb::sandboxd {
namespace {

namespace fs = std::filesystem;

// Trees with limits are tested on real file systems: tests/privileged/attacks/test_disk.py, tests/privileged/uml.

TEST(DiskTrees, WithoutMeansATreeIsADirectory) {
  const osb::testing::TempDir dir;
  const DiskTrees trees;
  const std::string path = dir / "tree";
  ASSERT_TRUE(trees.make(path, 0700, 1 << 20));
  EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_all);
  EXPECT_EQ(trees.make(path, 0700, 0).error().code, Code::Conflict);
  EXPECT_EQ(trees.set_limit(path, 1 << 20).error().code, Code::Unsupported);
  std::ofstream(path + "/file") << "x";
  const UniqueFd parent(::open(dir.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_TRUE(trees.remove(parent.get(), "tree"));
  EXPECT_FALSE(fs::exists(path));
}

TEST(DiskTrees, ASandboxFromBeforeTheLimitsIsMovedToItsTree) {
  const osb::testing::TempDir dir;
  for (const char* name : {"upper", "work", "run"}) fs::create_directory(dir / name);
  std::ofstream(dir / "record.json") << "{}";
  const DiskTrees limited(DiskMeans::ProjectQuota), plain;
  limited.fit(dir.path());
  for (const char* name : {"tree/upper", "tree/work", "tree/run", "record.json"}) EXPECT_TRUE(fs::exists(dir / name));
  EXPECT_FALSE(fs::exists(dir / "upper"));
  limited.fit(dir.path());
  EXPECT_TRUE(fs::exists(dir / "tree/upper"));
  plain.fit(dir.path());
  for (const char* name : {"upper", "work", "run"}) EXPECT_TRUE(fs::exists(dir / name));
}

}  // namespace
}  // namespace osb::sandboxd
