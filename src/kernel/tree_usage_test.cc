#include "kernel/tree_usage.h"

#include <fcntl.h>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "support/temp_dir.h"
#include "sys/syscall.h"

namespace osb::kernel {
namespace {

namespace fs = std::filesystem;

class TreeUsageTest : public ::testing::Test {
 protected:
  TreeUsage count(const TreeUsageLimits& limits = {}) {
    const auto fd = sys::open_at(AT_FDCWD, tree().string(), O_RDONLY | O_DIRECTORY);
    const auto usage = tree_usage(fd->get(), limits);
    if (!usage) throw std::runtime_error(usage.error().message);
    return *usage;
  }
  void write(const std::string& name, std::size_t bytes) { std::ofstream(tree() / name) << std::string(bytes, 'x'); }
  fs::path tree() {
    fs::create_directories(dir_.path() / "tree");
    return dir_.path() / "tree";
  }

  osb::testing::TempDir dir_;
};

TEST_F(TreeUsageTest, FilesCountInBlocksAndOnceForAllTheirNames) {
  fs::create_directory(tree() / "below");
  const TreeUsage before = count();
  write("below/file", 100'000);
  const TreeUsage one = count();
  EXPECT_GE(one.bytes - before.bytes, 100'000u);
  EXPECT_LT(one.bytes - before.bytes, 200'000u);
  fs::create_hard_link(tree() / "below/file", tree() / "again");
  EXPECT_EQ(count().bytes, one.bytes);
  EXPECT_EQ(count().entries, one.entries + 1);
}

TEST_F(TreeUsageTest, LinksAreNotFollowed) {
  std::ofstream(dir_.path() / "outside") << std::string(1'000'000, 'x');
  fs::create_symlink("..", tree() / "up");
  fs::create_symlink("../outside", tree() / "file");
  const TreeUsage usage = count();
  EXPECT_EQ(usage.entries, 2u);
  EXPECT_LT(usage.bytes, 100'000u);
}

TEST_F(TreeUsageTest, LimitsEndTheCountAndSaySo) {
  fs::create_directories(tree() / "a/b/c/d");
  EXPECT_TRUE(count().complete);
  EXPECT_FALSE(count({.entries = 3}).complete);
  EXPECT_EQ(count({.entries = 3}).entries, 3u);
  const TreeUsage shallow = count({.depth = 2});
  EXPECT_FALSE(shallow.complete);
  EXPECT_EQ(shallow.entries, 2u);
}

}  // namespace
}  // namespace osb::kernel
