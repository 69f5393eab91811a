#include "execd/init/inherited_fd.h"

#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <unistd.h>

#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace osb::execd {
namespace {

std::string link_to(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

TEST(InheritedFd, IsUsedWithoutAskingTheFileSystemAgain) {
  const testing::TempDir dir;
  const std::string name = dir / "log";
  const UniqueFd log(::open(name.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0));
  ASSERT_TRUE(log);
  ASSERT_EQ(::unlink(name.c_str()), 0);
  const auto opened = open_given(link_to(log.get()), O_WRONLY | O_CREAT | O_APPEND);
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_NE(opened->get(), log.get());
  EXPECT_EQ(::fcntl(opened->get(), F_GETFD), FD_CLOEXEC);
  EXPECT_EQ(::fcntl(opened->get(), F_GETFL) & O_APPEND, O_APPEND);
  EXPECT_EQ(::write(opened->get(), "x", 1), 1);
  EXPECT_FALSE(std::ifstream(name).good()) << "nothing is made anew under the old name";
}

TEST(InheritedFd, MustBeWhatIsAskedFor) {
  const testing::TempDir dir;
  const UniqueFd directory(::open(dir.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const UniqueFd file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_TRUE(open_given(link_to(directory.get()), O_RDONLY | O_DIRECTORY));
  EXPECT_EQ(open_given(link_to(file.get()), O_RDONLY | O_DIRECTORY).error().sys_errno, ENOTDIR);
  EXPECT_EQ(open_given(link_to(file.get()), O_WRONLY).error().sys_errno, EACCES);
  EXPECT_EQ(open_given(link_to(999'999), O_RDONLY).error().sys_errno, EBADF);
}

TEST(InheritedFd, AnyOtherPathIsAPath) {
  const testing::TempDir dir;
  ASSERT_TRUE(open_given(dir / "new", O_WRONLY | O_CREAT));
  EXPECT_TRUE(std::ifstream(dir / "new").good());
  EXPECT_EQ(open_given("/proc/self/fd/x", O_RDONLY).error().sys_errno, ENOENT);
}

}  // namespace
}  // namespace osb::execd
