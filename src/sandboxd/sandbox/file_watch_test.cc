#include "sandboxd/sandbox/file_watch.h"

#include <fcntl.h>
#include <fstream>

#include <gtest/gtest.h>

#include "support/await.h"
#include "support/temp_dir.h"
#include "sys/syscall.h"

namespace osb::sandboxd {
namespace {

using osb::testing::await;

class FileWatchTest : public ::testing::Test {
 protected:
  ~FileWatchTest() override { await(io_, watch_.stop()); }
  UniqueFd open(const std::string& name) {
    std::ofstream(dir_ / name, std::ios::app) << "";
    return std::move(*sys::open_at(AT_FDCWD, (dir_ / name).string(), O_RDONLY));
  }
  void append(const std::string& name) { std::ofstream(dir_ / name, std::ios::app) << "more\n"; }
  // Whether it was told; not cancelled.
  bool told(FileWatch::Follower& follower, std::uint64_t seen) { return await(io_, follower.changed_since(seen)); }

  net::io_context io_{1};
  testing::TempDir dir_;
  FileWatch watch_{io_.get_executor()};
};

TEST_F(FileWatchTest, EveryReaderOfAFileHearsOfAWrite) {
  const UniqueFd a = open("a"), b = open("b");
  const auto first = watch_.follow(a.get(), "a"), second = watch_.follow(a.get(), "a"),
             other = watch_.follow(b.get(), "b");
  ASSERT_TRUE(first && second && other);
  append("a");
  EXPECT_TRUE(told(**first, 0));
  EXPECT_TRUE(told(**second, 0));
  EXPECT_EQ((*other)->changes(), 0U);
}

TEST_F(FileWatchTest, OneReaderMayLeaveAndTheOthersStillHear) {
  const UniqueFd a = open("a");
  auto first = watch_.follow(a.get(), "a"), second = watch_.follow(a.get(), "a");
  ASSERT_TRUE(first && second);
  first->reset();
  append("a");
  EXPECT_TRUE(told(**second, 0));
  second->reset();
  auto third = watch_.follow(a.get(), "a");
  ASSERT_TRUE(third);
  append("a");
  EXPECT_TRUE(told(**third, 0));
}

TEST_F(FileWatchTest, AFileThatWasRenamedIsStillTheSame) {
  const UniqueFd a = open("a");
  std::filesystem::rename(dir_ / "a", dir_ / "renamed");
  const auto follower = watch_.follow(a.get(), "a");
  ASSERT_TRUE(follower);
  append("renamed");
  EXPECT_TRUE(told(**follower, 0));
}

TEST_F(FileWatchTest, APokeReachesThoseWithTheKeyAndAnEndReachesAll) {
  const UniqueFd a = open("a"), b = open("b");
  const auto first = watch_.follow(a.get(), "a"), other = watch_.follow(b.get(), "b");
  ASSERT_TRUE(first && other);
  watch_.poke("a");
  EXPECT_TRUE(told(**first, 0));
  EXPECT_EQ((*other)->changes(), 0U);
  watch_.close();
  EXPECT_TRUE(told(**other, (*other)->changes()));
  EXPECT_TRUE((*other)->closed());
  EXPECT_FALSE(watch_.follow(a.get(), "a"));
}

}  // namespace
}  // namespace osb::sandboxd
