#include "async/directory_watch.h"

#include <fstream>

#include <gtest/gtest.h>

#include "support/await.h"
#include "support/temp_dir.h"

namespace osb {
namespace {

using testing::await;

TEST(DirectoryWatch, TellsWritesRenamesAndRemovals) {
  net::io_context io(1);
  const testing::TempDir dir;
  auto watch = DirectoryWatch::open(io.get_executor(), dir.path());
  ASSERT_TRUE(watch) << watch.error().message;
  std::ofstream(dir / "a") << "x";
  EXPECT_TRUE(await(io, watch->changed()));
  std::filesystem::rename(dir / "a", dir / "b");
  EXPECT_TRUE(await(io, watch->changed()));
  std::filesystem::create_symlink("b", dir / "c");
  EXPECT_TRUE(await(io, watch->changed()));
  std::filesystem::remove(dir / "b");
  EXPECT_TRUE(await(io, watch->changed()));
}

TEST(DirectoryWatch, FailsWhenTheDirectoryGoes) {
  net::io_context io(1);
  const testing::TempDir dir;
  std::filesystem::create_directory(dir / "d");
  auto watch = DirectoryWatch::open(io.get_executor(), dir / "d");
  ASSERT_TRUE(watch) << watch.error().message;
  std::filesystem::rename(dir / "d", dir / "e");
  const auto told = await(io, watch->changed());
  ASSERT_FALSE(told);
  EXPECT_EQ(told.error().code, Code::NotFound);
  EXPECT_EQ(DirectoryWatch::open(io.get_executor(), dir / "d").error().code, Code::NotFound);
}

}  // namespace
}  // namespace osb
