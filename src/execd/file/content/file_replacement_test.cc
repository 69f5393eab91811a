#include "execd/file/content/file_replacement.h"

#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "execd/file/edit.h"
#include "execd/file/file_test_support.h"
#include "support/temp_dir.h"

namespace osb::execd {
namespace {

namespace fs = std::filesystem;

std::size_t entries_in(const fs::path& path) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(path), {}));
}

Result<void> replace(const fs::path& path, std::string_view content, const Permission& permission = {}) {
  auto replacement = FileReplacement::begin(path.string());
  if (!replacement) return Failure(replacement.error());
  if (auto ok = replacement->write(content); !ok) return ok;
  if (auto ok = replacement->write_out(); !ok) return ok;
  auto placed = replacement->place(permission);
  if (!placed) return Failure(placed.error());
  return replacement->sync();
}

TEST(FileReplacement, NothingShowsBeforeItIsPlaced) {
  testing::TempDir dir;
  write(dir / "f", "old");
  auto replacement = FileReplacement::begin((dir / "f").string());
  ASSERT_TRUE(replacement) << replacement.error().message;
  ASSERT_TRUE(replacement->write("new"));
  EXPECT_EQ(content_of(dir / "f"), "old");
  EXPECT_EQ(entries_in(dir.path()), 1u) << "not even a temporary name";
  ASSERT_TRUE(replacement->place({}));
  EXPECT_EQ(content_of(dir / "f"), "new");
  EXPECT_EQ(entries_in(dir.path()), 1u);
}

TEST(FileReplacement, AbandonedLeavesNothingBehind) {
  testing::TempDir dir;
  {
    auto replacement = FileReplacement::begin((dir / "sub" / "deep" / "f").string());
    ASSERT_TRUE(replacement) << replacement.error().message;
    ASSERT_TRUE(replacement->write("new"));
  }
  EXPECT_EQ(entries_in(dir.path()), 0u) << "also no directories";
}

TEST(FileReplacement, ReadersSeeTheOldFileToItsEnd) {
  testing::TempDir dir;
  write(dir / "f", "old contents");
  std::ifstream reader(dir / "f");
  char first[4] = {};
  reader.read(first, 3);
  ASSERT_TRUE(replace(dir / "f", "new"));
  EXPECT_EQ(std::string(first) + std::string(std::istreambuf_iterator<char>(reader), {}), "old contents");
}

TEST(FileReplacement, ExistingFilesKeepModeOwnerAndAttributes) {
  testing::TempDir dir;
  write(dir / "f", "old");
  ::chmod((dir / "f").c_str(), 04640);
  if (::geteuid() == 0) ASSERT_EQ(::chown((dir / "f").c_str(), 1234, 5678), 0);
  ::chmod((dir / "f").c_str(), 04640);
  const bool attributes = ::setxattr((dir / "f").c_str(), "user.note", "hi", 2, 0) == 0;
  const struct stat before = stat_of(dir / "f");
  ASSERT_TRUE(replace(dir / "f", "new"));
  const struct stat after = stat_of(dir / "f");
  EXPECT_EQ(after.st_mode, before.st_mode);
  EXPECT_EQ(after.st_uid, before.st_uid);
  EXPECT_EQ(after.st_gid, before.st_gid);
  char value[8] = {};
  if (attributes) {
    EXPECT_EQ(::getxattr((dir / "f").c_str(), "user.note", value, sizeof value), 2);
  }
  ASSERT_TRUE(replace(dir / "f", "newer", Permission{.mode = 0600, .uid = {}, .gid = {}}));
  EXPECT_EQ(stat_of(dir / "f").st_mode & 07777, 0600u);
  EXPECT_EQ(stat_of(dir / "f").st_uid, before.st_uid);
}

TEST(FileReplacement, NewFilesGetWhatTheUmaskLeaves) {
  testing::TempDir dir;
  const mode_t before = ::umask(027);
  const auto done = replace(dir / "a" / "b" / "f", "x");
  ::umask(before);
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(stat_of(dir / "a" / "b" / "f").st_mode & 07777, 0750u);
  EXPECT_EQ(stat_of(dir / "a").st_mode & 07777, 0750u);
}

TEST(FileReplacement, SymlinksAreFollowedEvenDanglingOnes) {
  testing::TempDir dir;
  fs::create_directory(dir / "real");
  write(dir / "real" / "f", "old");
  fs::create_symlink("real/f", dir / "link");
  fs::create_symlink("link", dir / "chain");
  ASSERT_TRUE(replace(dir / "chain", "new"));
  EXPECT_EQ(content_of(dir / "real" / "f"), "new");
  EXPECT_TRUE(fs::is_symlink(dir / "chain") && fs::is_symlink(dir / "link"));

  fs::create_symlink("real/later", dir / "dangling");
  ASSERT_TRUE(replace(dir / "dangling", "made"));
  EXPECT_EQ(content_of(dir / "real" / "later"), "made");
  EXPECT_TRUE(fs::is_symlink(dir / "dangling"));

  fs::create_symlink("loop", dir / "loop");
  EXPECT_EQ(replace(dir / "loop", "x").error().sys_errno, ELOOP);
}

TEST(FileReplacement, RefusesWhatIsNoFile) {
  testing::TempDir dir;
  fs::create_directory(dir / "d");
  fs::create_directory_symlink("d", dir / "dlink");
  ::mkfifo((dir / "fifo").c_str(), 0600);
  write(dir / "f", "x");
  EXPECT_EQ(replace(dir / "d", "x").error().sys_errno, EISDIR);
  EXPECT_EQ(replace(dir / "dlink", "x").error().sys_errno, EISDIR);
  EXPECT_EQ(replace("/", "x").error().sys_errno, EISDIR);
  EXPECT_FALSE(replace(dir / "fifo", "x"));
  EXPECT_FALSE(replace("/dev/null", "x"));
  EXPECT_FALSE(replace(dir / "f" / "below", "x"));
  EXPECT_EQ(content_of(dir / "f"), "x");
}

TEST(FileReplacement, BindMountedFilesAreOverwritten) {
  testing::TempDir dir;
  write(dir / "source", "a longer old text");
  write(dir / "target", "");
  const Mount mount((dir / "source").c_str(), dir / "target", nullptr, MS_BIND);
  if (!mount.mounted()) GTEST_SKIP() << "needs root";
  const auto done = replace(dir / "target", "new", Permission{.mode = 0604, .uid = {}, .gid = {}});
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(content_of(dir / "source"), "new");
  EXPECT_EQ(content_of(dir / "target"), "new");
  EXPECT_EQ(stat_of(dir / "source").st_mode & 0777, 0604u);
  EXPECT_EQ(entries_in(dir.path()), 2u) << "no temporary file";
}

TEST(FileReplacement, FilesInReadOnlyDirectoriesAreOverwritten) {
  testing::TempDir dir;
  fs::create_directory(dir / "ro");
  write(dir / "source", "old");
  write(dir / "ro" / "f", "");
  const Mount directory((dir / "ro").c_str(), dir / "ro", nullptr, MS_BIND);
  if (!directory.mounted()) GTEST_SKIP() << "needs root";
  const Mount file((dir / "source").c_str(), dir / "ro" / "f", nullptr, MS_BIND);
  ASSERT_EQ(::mount(nullptr, (dir / "ro").c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr), 0);
  const auto done = replace(dir / "ro" / "f", "new");
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(content_of(dir / "source"), "new");
  EXPECT_EQ(replace(dir / "ro" / "other", "new").error().sys_errno, EROFS);
}

TEST(FileReplacement, AFullDiskLeavesTheOldFile) {
  testing::TempDir dir;
  fs::create_directory(dir / "small");
  const Mount mount("tmpfs", dir / "small", "tmpfs", 0, "size=1m");
  if (!mount.mounted()) GTEST_SKIP() << "needs root";
  write(dir / "small" / "f", std::string(400'000, 'o'));
  EXPECT_EQ(replace(dir / "small" / "f", std::string(900'000, 'n')).error().sys_errno, ENOSPC);
  EXPECT_EQ(content_of(dir / "small" / "f"), std::string(400'000, 'o'));
  EXPECT_EQ(entries_in(dir / "small"), 1u);

  const auto grown = replace_in_file((dir / "small" / "f").string(), "o", "ooo");
  ASSERT_FALSE(grown);
  EXPECT_EQ(grown.error().sys_errno, ENOSPC);
  EXPECT_EQ(content_of(dir / "small" / "f"), std::string(400'000, 'o'));
}

TEST(FileReplacement, OverwritingAFullDiskFailsBeforeItBegins) {
  testing::TempDir dir;
  fs::create_directory(dir / "small");
  write(dir / "target", "");
  const Mount disk("tmpfs", dir / "small", "tmpfs", 0, "size=1m");
  if (!disk.mounted()) GTEST_SKIP() << "needs root";
  write(dir / "small" / "f", "old");
  const Mount file((dir / "small" / "f").c_str(), dir / "target", nullptr, MS_BIND);
  ASSERT_TRUE(file.mounted());
  EXPECT_EQ(replace(dir / "target", std::string(2'000'000, 'n')).error().sys_errno, ENOSPC);
  EXPECT_EQ(content_of(dir / "target"), "old");
}

TEST(Edit, ReplacesEveryOccurrence) {
  testing::TempDir dir;
  struct {
    const char* why;
    std::string before, old_text, new_text, after;
    std::uint64_t count;
  } rows[] = {
      {"plain", "a-b-a", "a", "xy", "xy-b-xy", 2},
      {"removes", "aXbX", "X", "", "ab", 2},
      {"not overlapping", "aaaa", "aa", "b", "bb", 2},
      {"result is not searched again", "ab", "a", "aa", "aab", 1},
      {"no match", "abc", "x", "y", "abc", 0},
      {"empty file", "", "x", "y", "", 0},
      {"bytes", std::string("\0\xff\0", 3), std::string("\0", 1), "z", "z\xffz", 2},
      {"whole file", "all", "all", "none", "none", 1},
  };
  for (const auto& row : rows) {
    write(dir / "f", row.before);
    const auto count = replace_in_file((dir / "f").string(), row.old_text, row.new_text);
    ASSERT_TRUE(count) << row.why << ": " << count.error().message;
    EXPECT_EQ(*count, row.count) << row.why;
    EXPECT_EQ(content_of(dir / "f"), row.after) << row.why;
  }
}

TEST(Edit, ReplacesAcrossPieces) {
  testing::TempDir dir;
  // The second occurrence lies across the end of the first megabyte that is read.
  std::string text(3 << 20, '.');
  text.replace(1000, 6, "needle");
  text.replace((1 << 20) - 3, 6, "needle");
  text.replace(text.size() - 6, 6, "needle");
  write(dir / "f", text);
  EXPECT_EQ(replace_in_file((dir / "f").string(), "needle", "pin").value(), 3u);
  const std::string after = content_of(dir / "f");
  EXPECT_EQ(after.size(), text.size() - 9);
  EXPECT_EQ(after.substr(1000, 3), "pin");
  EXPECT_EQ(after.substr((1 << 20) - 6, 3), "pin");
  EXPECT_EQ(after.substr(after.size() - 3), "pin");

  // First occurrence far behind the beginning: what was only skimmed must be there too.
  std::string late(5 << 20, 'x');
  late += "END";
  write(dir / "f", late);
  EXPECT_EQ(replace_in_file((dir / "f").string(), "END", "end").value(), 1u);
  EXPECT_EQ(content_of(dir / "f"), std::string(5 << 20, 'x') + "end");
}

TEST(Edit, ReplacingKeepsModeAndAdvancesTheTime) {
  testing::TempDir dir;
  for (const char* wanted : {"a", "nothing like it"}) {
    write(dir / "f", "a");
    ::chmod((dir / "f").c_str(), 0640);
    const timespec old[2] = {{1, 0}, {1, 0}};
    ::utimensat(AT_FDCWD, (dir / "f").c_str(), old, 0);
    ASSERT_TRUE(replace_in_file((dir / "f").string(), wanted, "b"));
    EXPECT_GT(stat_of(dir / "f").st_mtime, 1);
    EXPECT_EQ(stat_of(dir / "f").st_mode & 0777, 0640u);
  }
  EXPECT_EQ(replace_in_file((dir / "none").string(), "a", "b").error().code, Code::NotFound);
  EXPECT_FALSE(replace_in_file(dir.path().string(), "a", "b"));
}

TEST(Edit, MovesNeverReplace) {
  testing::TempDir dir;
  write(dir / "a", "a");
  write(dir / "b", "b");
  EXPECT_FALSE(move_path((dir / "a").string(), (dir / "b").string()));
  EXPECT_EQ(content_of(dir / "b"), "b");
  fs::create_symlink("nowhere", dir / "dangling");
  EXPECT_FALSE(move_path((dir / "a").string(), (dir / "dangling").string()));
  EXPECT_EQ(move_path((dir / "none").string(), (dir / "new" / "c").string()).error().code, Code::NotFound);
  EXPECT_FALSE(fs::exists(dir / "new")) << "nothing is made for a source that is not there";
  ASSERT_TRUE(move_path((dir / "a").string(), (dir / "new" / "c").string()));
  EXPECT_EQ(content_of(dir / "new" / "c"), "a");
  ASSERT_TRUE(move_path((dir / "new").string(), (dir / "moved").string()));
  EXPECT_EQ(content_of(dir / "moved" / "c"), "a");
  ASSERT_TRUE(move_path((dir / "dangling").string(), (dir / "elsewhere").string()));
}

TEST(Edit, RemovesFilesAndLinksButNoDirectories) {
  testing::TempDir dir;
  write(dir / "f", "x");
  fs::create_directory(dir / "d");
  fs::create_directory_symlink("d", dir / "dlink");
  fs::create_symlink("f", dir / "flink");
  fs::create_symlink("nowhere", dir / "dangling");
  EXPECT_TRUE(remove_file((dir / "flink").string()));
  EXPECT_TRUE(fs::exists(dir / "f"));
  EXPECT_TRUE(remove_file((dir / "dangling").string()));
  EXPECT_FALSE(fs::exists(fs::symlink_status(dir / "dangling")));
  EXPECT_TRUE(remove_file((dir / "f").string()));
  EXPECT_TRUE(remove_file((dir / "f").string())) << "missing is fine";
  EXPECT_FALSE(remove_file((dir / "d").string()));
  EXPECT_FALSE(remove_file((dir / "dlink").string()));
  EXPECT_TRUE(fs::exists(dir / "dlink"));
}

}  // namespace
}  // namespace osb::execd
