#include "kernel/loop_device.h"

#include <atomic>
#include <fcntl.h>
#include <sys/mount.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace osb::kernel {
namespace {

UniqueFd file_of(const osb::testing::TempDir& directory, const std::string& name) {
  UniqueFd file(::open((directory / name).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  EXPECT_EQ(::ftruncate(file.get(), 1 << 20), 0);
  return file;
}

TEST(LoopDevice, AFileThatHasOneIsFoundAgain) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  osb::testing::TempDir directory;
  const UniqueFd file = file_of(directory, "a"), other = file_of(directory, "b");
  const auto first = attach_loop_device(file.get());
  ASSERT_TRUE(first) << first.error().message;
  const auto second = attach_loop_device(other.get());
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_NE(first->path, second->path);
  const auto again = attach_loop_device(file.get());
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->path, first->path);
}

// They all want the first free one.
TEST(LoopDevice, ManyAtATimeGetOneEach) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  constexpr int kThreads = 12, kRounds = 200;
  osb::testing::TempDir directory;
  std::atomic<int> refused = 0;
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      const UniqueFd file = file_of(directory, std::to_string(thread));
      for (int round = 0; round < kRounds; ++round) {
        if (auto device = attach_new_loop_device(file.get()); !device) {
          if (refused++ == 0) ADD_FAILURE() << device.error().message;
        }
        if (auto possible = probe_loop_devices(); !possible) {
          if (refused++ == 0) ADD_FAILURE() << possible.error().message;
        }
      }
    });
  }
  threads.clear();
  EXPECT_EQ(refused, 0);
}

}  // namespace
}  // namespace osb::kernel
