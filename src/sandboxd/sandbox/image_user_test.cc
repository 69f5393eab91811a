#include "sandboxd/sandbox/image_user.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace osb::sandboxd {
namespace {

class ImageUserTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* layer : {"top", "bottom"}) std::filesystem::create_directories(dir_.path() / layer / "etc");
    write("bottom/etc/passwd", "root:x:0:0::/root:/bin/sh\napp:x:1000:1001::/home/app:/bin/sh\nbig:x:70000:1::/:/\n");
    write("bottom/etc/group", "app:x:1001:\nextra:x:1002:app\n");
  }
  void write(const std::string& name, const std::string& text) { std::ofstream(dir_.path() / name) << text; }
  Result<ImageUser> find(const std::string& text) {
    return find_image_user(text, {(dir_.path() / "top").string(), (dir_.path() / "bottom").string()});
  }
  testing::TempDir dir_;
};

TEST_F(ImageUserTest, AreFoundByNameOrNumberWithOrWithoutAGroup) {
  const struct {
    const char* text;
    uid_t uid;
    gid_t gid;
    const char* home;
    std::size_t groups;
  } rows[] = {
      {"", 0, 0, "/root", 1},
      {"app", 1000, 1001, "/home/app", 2},
      {"1000", 1000, 1001, "/home/app", 2},
      {"app:extra", 1000, 1002, "/home/app", 1},
      {"1000:7", 1000, 7, "/home/app", 1},
      {"4321", 4321, 0, "/", 1},
  };
  for (const auto& row : rows) {
    const auto user = find(row.text);
    ASSERT_TRUE(user) << row.text << ": " << user.error().message;
    EXPECT_EQ(user->uid, row.uid) << row.text;
    EXPECT_EQ(user->gid, row.gid) << row.text;
    EXPECT_EQ(user->home, row.home) << row.text;
    EXPECT_EQ(user->groups.size(), row.groups) << row.text;
  }
}

TEST_F(ImageUserTest, ThatTheImageDoesNotHaveAreErrors) {
  for (const char* text : {"nobody-here", "app:nogroup", "99999", "big"}) {
    const auto user = find(text);
    ASSERT_FALSE(user) << text;
    EXPECT_EQ(user.error().code, Code::InvalidRequest) << text;
  }
}

TEST_F(ImageUserTest, ComeFromTheTopmostLayerThatHasTheFile) {
  write("top/etc/passwd", "app:x:5:6::/a:/bin/sh\n");
  EXPECT_EQ(find("app")->uid, 5u);
}

TEST_F(ImageUserTest, ALinkOutOfTheImageLeadsNowhere) {
  std::filesystem::remove(dir_.path() / "bottom/etc/passwd");
  std::filesystem::create_symlink("../../../../../../../../etc/passwd", dir_.path() / "bottom/etc/passwd");
  EXPECT_FALSE(find("daemon"));
}

}  // namespace
}  // namespace osb::sandboxd
