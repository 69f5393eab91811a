#include "sys/replace_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/unique_fd.h"
#include "support/temp_dir.h"
#include "sys/text_file.h"

namespace osb::sys {
namespace {

namespace fs = std::filesystem;

mode_t mode_of(const fs::path& path) {
  struct stat st{};
  EXPECT_EQ(::stat(path.c_str(), &st), 0) << path;
  return st.st_mode & 07777;
}

std::size_t entries_of(const fs::path& directory) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(directory), fs::directory_iterator()));
}

TEST(ReplaceFile, MakesAFileThatOnlyItsOwnerReads) {
  const testing::TempDir dir;
  ASSERT_TRUE(replace_file(dir / "record", "one"));
  EXPECT_EQ(read_text(dir / "record").value_or(""), "one");
  EXPECT_EQ(mode_of(dir / "record"), 0600U);
}

TEST(ReplaceFile, GivesTheModeThatWasAskedForWhateverTheUmask) {
  const testing::TempDir dir;
  const mode_t before = ::umask(0077);
  const auto done = replace_file(dir / "record", "one", {.mode = 0644});
  ::umask(before);
  ASSERT_TRUE(done);
  EXPECT_EQ(mode_of(dir / "record"), 0644U);
}

TEST(ReplaceFile, AReaderOfTheOldFileKeepsItsText) {
  const testing::TempDir dir;
  ASSERT_TRUE(replace_file(dir / "record", "the old text"));
  const UniqueFd old(::open((dir / "record").c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(replace_file(dir / "record", "new"));
  EXPECT_EQ(read_text(old.get(), "record").value_or(""), "the old text");
  EXPECT_EQ(read_text(dir / "record").value_or(""), "new");
  EXPECT_EQ(entries_of(dir.path()), 1U);
}

TEST(ReplaceFile, ALinkIsReplacedNotFollowed) {
  const testing::TempDir dir;
  ASSERT_TRUE(replace_file(dir / "victim", "untouched"));
  fs::create_symlink("victim", dir / "record");
  ASSERT_TRUE(replace_file(dir / "record", "mine"));
  EXPECT_EQ(read_text(dir / "victim").value_or(""), "untouched");
  EXPECT_FALSE(fs::is_symlink(dir / "record"));
}

TEST(ReplaceFile, AFailureKeepsTheOldFileLeavesNothingAndNamesIt) {
  const testing::TempDir dir;
  fs::create_directory(dir / "record");
  const auto done = replace_file(dir / "record", "text");
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().message.find("write " + (dir / "record").string()), std::string::npos) << done.error().message;
  EXPECT_TRUE(fs::is_directory(dir / "record"));
  EXPECT_EQ(entries_of(dir.path()), 1U);
  EXPECT_FALSE(replace_file(dir / "missing" / "record", "text"));
}

}  // namespace
}  // namespace osb::sys
