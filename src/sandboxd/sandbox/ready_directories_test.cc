#include "sandboxd/sandbox/ready_directories.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace osb::sandboxd {
namespace {

namespace fs = std::filesystem;

class ReadyDirectoriesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directory(dir_ / "trash");
    fs::create_directory(dir_ / "sandboxes");
  }
  std::unique_ptr<ReadyDirectories> open() {
    auto opened = ReadyDirectories::open(dir_.path().string());
    EXPECT_TRUE(opened) << opened.error().message;
    return std::move(*opened);
  }
  std::string sandbox(const std::string& id) { return (dir_ / "sandboxes" / id).string(); }
  long entries(const std::string& name) { return std::distance(fs::directory_iterator(dir_ / name), {}); }

  testing::TempDir dir_;
};

TEST_F(ReadyDirectoriesTest, AreMadeAheadAndGetTheirNamesLater) {
  auto ready = open();
  ready->refill();
  const long kept = entries("ready");
  ASSERT_GT(kept, 0);
  ASSERT_TRUE(ready->take(sandbox("a")));
  EXPECT_EQ(entries("ready"), kept - 1);
  for (const char* name : {"upper", "work", "run/entrypoint.log", "run/execd.log"}) {
    EXPECT_TRUE(fs::exists(sandbox("a") + "/" + name)) << name;
  }
  EXPECT_EQ(fs::status(sandbox("a")).permissions(), fs::perms::owner_all);
  ready->refill();
  EXPECT_EQ(entries("ready"), kept);
}

TEST_F(ReadyDirectoriesTest, AreMadeOnTheSpotWhenNoneIsLeft) {
  auto ready = open();
  ASSERT_TRUE(ready->take(sandbox("a")));
  EXPECT_TRUE(fs::is_directory(sandbox("a") + "/upper"));
  EXPECT_TRUE(fs::is_directory(sandbox("a") + "/work"));
  EXPECT_TRUE(fs::is_directory(sandbox("a") + "/run"));
}

TEST_F(ReadyDirectoriesTest, DoNotReplaceWhatIsThere) {
  auto ready = open();
  ready->refill();
  fs::create_directory(sandbox("a"));
  const auto taken = ready->take(sandbox("a"));
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code, Code::Conflict);
  EXPECT_TRUE(fs::is_empty(sandbox("a")));
}

TEST_F(ReadyDirectoriesTest, LeftoversOfAnEarlierProcessAreTrash) {
  open()->refill();
  std::ofstream(dir_ / "ready/mine") << "x";
  auto ready = open();
  EXPECT_EQ(entries("ready"), 0);
  EXPECT_EQ(entries("trash"), 9);  // each by itself
  ready->refill();
  EXPECT_TRUE(ready->take(sandbox("a")));
}

}  // namespace
}  // namespace osb::sandboxd
