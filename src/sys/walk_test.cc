#include "sys/walk.h"

#include <fcntl.h>
#include <fstream>
#include <set>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "support/temp_dir.h"
#include "sys/remove_tree.h"

namespace osb::sys {
namespace {

namespace fs = std::filesystem;

void touch(const fs::path& path) { std::ofstream(path) << "x"; }

std::vector<std::string> walk(const fs::path& root, std::uint32_t depth = UINT32_MAX) {
  auto walker = Walker::open(root.string(), depth);
  EXPECT_TRUE(walker) << walker.error().message;
  std::vector<std::string> out;
  while (walker) {
    auto entry = walker->next();
    EXPECT_TRUE(entry) << entry.error().message;
    if (!entry || *entry == nullptr) break;
    out.emplace_back((*entry)->path.substr(root.string().size()));
  }
  return out;
}

constexpr const char* kName = "dir-with-quite-a-long-name";

// Makes a chain of directories that is longer than any path the kernel takes; each n-th has a file.
void make_deep(UniqueFd at, int depth, int files_every) {
  ASSERT_TRUE(at);
  for (int i = 1; i <= depth; ++i) {
    ASSERT_EQ(::mkdirat(at.get(), kName, 0755), 0);
    at.reset(::openat(at.get(), kName, O_RDONLY | O_DIRECTORY));
    ASSERT_TRUE(at);
    if (i % files_every != 0) continue;
    // Behind the directory in order, so that the walker has to come back.
    UniqueFd file(::openat(at.get(), "zfile", O_CREAT | O_WRONLY, 0644));
    ASSERT_TRUE(file);
  }
}

void make_deep(const fs::path& root, int depth, int files_every = 1) {
  make_deep(UniqueFd(::open(root.c_str(), O_RDONLY | O_DIRECTORY)), depth, files_every);
}

TEST(Walker, GoesInByteOrderDirectoriesFirstReported) {
  testing::TempDir dir;
  fs::create_directories(dir / "b" / "inner");
  touch(dir / "a");
  touch(dir / "b" / "inner" / "x");
  touch(dir / "b" / "Z");
  touch(dir / "b.txt");
  touch(dir / "\xff");
  fs::create_symlink("b", dir / "link");
  const std::vector<std::string> want = {"/a", "/b", "/b/Z", "/b/inner", "/b/inner/x", "/b.txt", "/link", "/\xff"};
  EXPECT_EQ(walk(dir.path()), want);
}

TEST(Walker, StopsAtTheDepth) {
  testing::TempDir dir;
  fs::create_directories(dir / "a" / "b" / "c");
  EXPECT_EQ(walk(dir.path(), 0), std::vector<std::string>());
  EXPECT_EQ(walk(dir.path(), 1), (std::vector<std::string>{"/a"}));
  EXPECT_EQ(walk(dir.path(), 2), (std::vector<std::string>{"/a", "/a/b"}));
}

TEST(Walker, RefusesWhatIsNoDirectory) {
  testing::TempDir dir;
  touch(dir / "file");
  fs::create_directory(dir / "real");
  fs::create_directory_symlink("real", dir / "link");
  EXPECT_EQ(Walker::open((dir / "file").string(), 1).error().sys_errno, ENOTDIR);
  EXPECT_FALSE(Walker::open((dir / "link").string(), 1));
  EXPECT_TRUE(Walker::open((dir / "link").string(), 1, Walker::RootLink::Follow));
  EXPECT_EQ(Walker::open((dir / "none").string(), 1).error().sys_errno, ENOENT);
}

TEST(Walker, SkipsDirectoriesThatVanish) {
  testing::TempDir dir;
  fs::create_directories(dir / "a" / "b");
  touch(dir / "c");
  auto walker = Walker::open(dir.path().string(), UINT32_MAX);
  ASSERT_TRUE(walker);
  EXPECT_EQ((*walker->next().value()).name, "a");
  fs::remove_all(dir / "a");
  EXPECT_EQ((*walker->next().value()).name, "c");
  EXPECT_EQ(walker->next().value(), nullptr);
}

TEST(Walker, TreesMayBeDeeperThanDescriptorsAndPathsAllow) {
  testing::TempDir dir;
  constexpr int kDepth = 400;
  make_deep(dir.path(), kDepth);
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  rlimit few = before;
  few.rlim_cur = 128;
  ::setrlimit(RLIMIT_NOFILE, &few);
  const auto found = walk(dir.path());
  EXPECT_EQ(found.size(), 2 * kDepth);
  EXPECT_EQ(found.back(), std::string("/") + kName + "/zfile");
  const auto removed = remove_tree(AT_FDCWD, dir.path().string());
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_TRUE(removed) << removed.error().message;
  EXPECT_FALSE(fs::exists(dir.path()));
}

TEST(Walker, ComesBackFromTheDepthsThroughDirectoriesThatAreDone) {
  testing::TempDir dir;
  make_deep(dir.path(), 150, 50);
  // A second chain where the levels above have been closed and most of them are not open again.
  std::string middle = dir.path().string();
  for (int i = 0; i < 75; ++i) middle.append("/").append(kName);
  ASSERT_EQ(::mkdir((middle + "/second").c_str(), 0755), 0);
  make_deep(middle + "/second", 70, 70);
  const auto found = walk(dir.path());
  EXPECT_EQ(found.size(), 150 + 3 + 1 + 70 + 1);
  EXPECT_TRUE(found.back().ends_with("/zfile"));
  EXPECT_TRUE(remove_tree(AT_FDCWD, dir.path().string()));
}

TEST(RemoveTree, RemovesLinksAndNotWhatTheyPointTo) {
  testing::TempDir dir;
  fs::create_directories(dir / "keep");
  touch(dir / "keep" / "file");
  fs::create_directories(dir / "tree" / "sub" / "empty");
  fs::create_directory_symlink(dir / "keep", dir / "tree" / "sub" / "link");
  fs::create_symlink("nowhere", dir / "tree" / "dangling");
  ::mkfifo((dir / "tree" / "fifo").c_str(), 0600);
  for (int i = 0; i < 200; ++i) touch(dir / "tree" / std::to_string(i));
  ASSERT_TRUE(remove_tree(AT_FDCWD, (dir / "tree").string()));
  EXPECT_FALSE(fs::exists(dir / "tree"));
  EXPECT_TRUE(fs::exists(dir / "keep" / "file"));

  fs::create_directory_symlink(dir / "keep", dir / "rootlink");
  ASSERT_TRUE(remove_tree(AT_FDCWD, (dir / "rootlink").string()));
  EXPECT_FALSE(fs::exists(fs::symlink_status(dir / "rootlink")));
  EXPECT_TRUE(fs::exists(dir / "keep" / "file"));
}

TEST(RemoveTree, TakesFilesAndMissingOnesAndRefusesTheRoot) {
  testing::TempDir dir;
  touch(dir / "file");
  EXPECT_TRUE(remove_tree(AT_FDCWD, (dir / "file").string()));
  EXPECT_FALSE(fs::exists(dir / "file"));
  EXPECT_TRUE(remove_tree(AT_FDCWD, (dir / "file").string()));
  EXPECT_FALSE(remove_tree(AT_FDCWD, "/"));
}

}  // namespace
}  // namespace osb::sys
