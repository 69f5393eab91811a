#include "sandboxd/sandbox/file_tail.h"

#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>

#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace osb::sandboxd {
namespace {

TEST(FileTail, IsTheEndOfTheFile) {
  const testing::TempDir dir;
  const std::string path = (dir.path() / "log").string();
  EXPECT_EQ(read_tail(path, 10).error().code, Code::NotFound);
  std::ofstream(path) << "0123456789";
  EXPECT_EQ(*read_tail(path, 100), "0123456789");
  EXPECT_EQ(*read_tail(path, 3), "789");
}

TEST(FileTail, ALinkIsRefused) {
  const testing::TempDir dir;
  std::filesystem::create_symlink("/etc/passwd", dir.path() / "log");
  EXPECT_FALSE(read_tail((dir.path() / "log").string(), 10));
  EXPECT_FALSE(free_all_but_tail((dir.path() / "log").string(), 10));
}

TEST(FileTail, LinksAndPipesAreRefusedWithoutBlocking) {
  const testing::TempDir dir;
  const std::string pipe = (dir.path() / "pipe").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path : {pipe, dir.path().string()}) {
    EXPECT_FALSE(read_tail(path, 10)) << path;
    EXPECT_FALSE(free_all_but_tail(path, 10)) << path;
  }
  // With a process at the other end, too.
  const UniqueFd other(::open(pipe.c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_FALSE(read_tail(pipe, 10));
  EXPECT_FALSE(free_all_but_tail(pipe, 10));
}

TEST(FileTail, OldBytesGiveTheirSpaceBack) {
  const testing::TempDir dir;
  const std::string path = (dir.path() / "log").string();
  std::ofstream(path) << std::string(1 << 20, 'a') << "the end";
  ASSERT_TRUE(free_all_but_tail(path, 600 << 10));  // less than twice as much: left alone
  EXPECT_EQ(read_tail(path, 4 << 20)->front(), 'a');
  ASSERT_TRUE(free_all_but_tail(path, 64 << 10));
  struct stat info{};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_size, (1 << 20) + 7);
  EXPECT_LE(info.st_blocks * 512, 96 << 10);
  EXPECT_EQ(*read_tail(path, 7), "the end");
}

}  // namespace
}  // namespace osb::sandboxd
