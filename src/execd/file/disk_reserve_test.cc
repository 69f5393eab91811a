#include "execd/file/disk_reserve.h"

#include <fcntl.h>

#include <gtest/gtest.h>

#include "base/unique_fd.h"

namespace osb::execd {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

TEST(DiskReserve, UploadsLeaveItFree) {
  const DiskNumbers disk{.blocks = 1000, .block_bytes = kMiB, .free_blocks = 50, .inodes = 100, .free_inodes = 50};
  const struct {
    const char* about;
    DiskReserve reserve;
    DiskNumbers file;
    std::string refused;  // part of the message; empty: it may write
  } rows[] = {
      {"none", {}, disk, ""},
      {"exactly the reserve is free", {50 * kMiB, 50}, disk, ""},
      {"a byte less", {50 * kMiB + 1, 50}, disk, "50 MiB are free, 50 MiB are kept free"},
      {"an inode less", {0, 51}, disk, "50 inodes are free, 51 are kept free"},
      {"a twentieth of the bytes", {-1, 0}, disk, ""},
      {"less than a twentieth", {-1, 0}, {1000, kMiB, 49, 100, 50}, "49 MiB are free, 50 MiB are kept free"},
      {"a twentieth of the inodes", {0, -1}, {1000, kMiB, 50, 100, 4}, "4 inodes are free, 5 are kept free"},
      {"another file system", {500 * kMiB, 99}, {64, kMiB, 1, 100, 1}, ""},
      {"inodes are not counted", {0, 51}, {1000, kMiB, 50, 0, 0}, ""},
  };
  for (const auto& row : rows) {
    DiskNumbers root = disk;
    if (row.file.inodes == 0) root.inodes = root.free_inodes = 0;
    const auto checked = check_reserve(row.reserve, row.file, root, "/root/file");
    EXPECT_EQ(checked.has_value(), row.refused.empty()) << row.about;
    if (checked) continue;
    EXPECT_EQ(checked.error().code, Code::Exhausted) << row.about;
    EXPECT_EQ(checked.error().reason, "DISK_LOW") << row.about;
    EXPECT_TRUE(checked.error().message.contains(row.refused)) << checked.error().message;
  }
}

TEST(DiskReserve, TheFileSystemOfTheFileIsAsked) {
  const UniqueFd disk(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC)), other(::open("/proc", O_RDONLY | O_CLOEXEC));
  const DiskReserve huge{.bytes = INT64_MAX};
  EXPECT_FALSE(huge.check(disk.get(), "/"));
  EXPECT_TRUE(huge.check(other.get(), "/proc"));
  EXPECT_TRUE(DiskReserve().check(-1, "/x")) << "nothing is asked without a reserve";
}

}  // namespace
}  // namespace osb::execd
