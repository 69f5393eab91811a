#include "sys/file_lock.h"

#include <future>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace osb::sys {
namespace {

using ::testing::HasSubstr;

TEST(FileLock, AProcessThatLivesKeepsIt) {
  testing::TempDir directory;
  const std::string path = directory / "lock";
  {
    const auto held = lock_file(path);
    ASSERT_TRUE(held) << held.error().message;
    const auto second = lock_file(path);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, Code::Conflict);
    EXPECT_THAT(second.error().message, HasSubstr(path));
  }
  EXPECT_TRUE(lock_file(path));
}

TEST(FileLock, AChildThatSurvivesItsKilledParentIsWaitedFor) {
  testing::TempDir directory;
  const std::string path = directory / "lock";
  int ready[2], hold[2];
  ASSERT_EQ(::pipe2(ready, O_CLOEXEC), 0);
  ASSERT_EQ(::pipe2(hold, O_CLOEXEC), 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    ::close(hold[1]);
    const auto held = lock_file(path);
    if (::fork() == 0) {
      char byte = held ? 'l' : 'f';
      (void)!::write(ready[1], &byte, 1);
      (void)!::read(hold[0], &byte, 1);  // until the test closes its end
      ::_exit(0);
    }
    for (;;) ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ASSERT_EQ(byte, 'l');
  const auto refused = lock_file(path);
  ASSERT_FALSE(refused) << "its holder lives";
  ::kill(parent, SIGKILL);
  ASSERT_EQ(::waitpid(parent, nullptr, 0), parent);
  auto locked = std::async(std::launch::async, [&] { return lock_file(path); });
  ::close(hold[1]);
  const auto held = locked.get();
  EXPECT_TRUE(held) << held.error().message;
  for (const int fd : {ready[0], ready[1], hold[0]}) ::close(fd);
}

}  // namespace
}  // namespace osb::sys
