#include "kernel/spread_directories.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <gtest/gtest.h>

#include "base/unique_fd.h"
#include "support/temp_dir.h"

namespace osb::kernel {
namespace {

TEST(SpreadSubdirectories, SetsTheFlagWhereThereIsOne) {
  const testing::TempDir dir;
  const auto spread = spread_subdirectories(dir.path().string());
  ASSERT_TRUE(spread) << spread.error().message;
  const UniqueFd fd(::open(dir.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct statfs fs{};
  ASSERT_EQ(::fstatfs(fd.get(), &fs), 0);
  if (fs.f_type != 0xEF53) GTEST_SKIP() << "the temporary directory is not on ext4";
  int flags = 0;
  ASSERT_EQ(::ioctl(fd.get(), FS_IOC_GETFLAGS, &flags), 0);
  EXPECT_TRUE(flags & FS_TOPDIR_FL);
}

TEST(SpreadSubdirectories, IsNoErrorWhereThereIsNone) { EXPECT_TRUE(spread_subdirectories("/proc/self")); }

TEST(SpreadSubdirectories, NamesADirectoryThatDoesNotExist) {
  const auto spread = spread_subdirectories("/nonexistent");
  ASSERT_FALSE(spread);
  EXPECT_EQ(spread.error().code, Code::NotFound);
}

}  // namespace
}  // namespace osb::kernel
