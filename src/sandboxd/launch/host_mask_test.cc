#include "sandboxd/launch/host_mask.h"

#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace osb::sandboxd {
namespace {

namespace fs = std::filesystem;

class HostMaskTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: whiteouts are device nodes";
    directory("", 0755);
    directory("bin", 0755);
    file("bin/open", 0755);
    fs::create_directory(dir_ / "packages");
    fs::create_directory(dir_ / "masks");
  }
  void directory(const std::string& path, mode_t mode) {
    fs::create_directory(usr() / path);
    ASSERT_EQ(::chmod((usr() / path).c_str(), mode), 0);
  }
  void file(const std::string& path, mode_t mode) {
    std::ofstream(usr() / path) << "content";
    ASSERT_EQ(::chmod((usr() / path).c_str(), mode), 0);
  }
  fs::path usr() const { return dir_ / "usr"; }
  HostMask mask() const { return {dir_ / "masks", "boot", usr(), dir_ / "packages"}; }
  // The mask says "not there".
  static bool hides(const std::string& layer, const std::string& path) {
    struct stat st{};
    return !layer.empty() && ::lstat((layer + "/usr/" + path).c_str(), &st) == 0 && S_ISCHR(st.st_mode) &&
           st.st_rdev == makedev(0, 0);
  }

  osb::testing::TempDir dir_;
};

TEST_F(HostMaskTest, NothingClosedNeedsNoMask) {
  fs::create_symlink("nowhere", usr() / "bin/link");
  HostMask mask = this->mask();
  EXPECT_EQ(mask.layer().value_or("none"), "");
}

TEST_F(HostMaskTest, ClosedFilesAndDirectoriesAreHidden) {
  directory("share", 02775);
  directory("share/deep", 0755);
  directory("share/deep/closed", 0700);
  file("share/deep/closed/secret", 0644);
  directory("group", 0750);
  directory("listed", 0744);
  directory("entered", 0711);
  file("bin/closed", 04711);
  file("bin/secret", 0600);
  HostMask mask = this->mask();
  const auto layer = mask.layer();
  ASSERT_TRUE(layer) << layer.error().message;
  for (const char* path : {"share/deep/closed", "group", "listed", "entered", "bin/closed", "bin/secret"}) {
    EXPECT_TRUE(hides(*layer, path)) << path;
  }
  EXPECT_FALSE(fs::exists(*layer + "/usr/bin/open"));
  struct stat st{};
  ASSERT_EQ(::stat((*layer + "/usr/share").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 02775u) << "directories above look as on the host";
  EXPECT_EQ(this->mask().layer().value_or(""), *layer) << "the next daemon uses the same";
}

TEST_F(HostMaskTest, ChangesAreSeenByTheNextSandbox) {
  directory("local", 0755);
  directory("local/lib", 0755);
  HostMask mask = this->mask();
  EXPECT_EQ(mask.layer().value_or("none"), "");
  directory("local/secret", 0700);
  const std::string first = mask.layer().value_or("");
  EXPECT_TRUE(hides(first, "local/secret"));
  EXPECT_EQ(mask.layer().value_or(""), first) << "nothing has changed";
  ASSERT_EQ(::chmod((usr() / "local/lib").c_str(), 0700), 0);
  file("bin/key", 0640);
  const std::string second = mask.layer().value_or("");
  EXPECT_NE(second, first);
  EXPECT_TRUE(hides(second, "local/secret") && hides(second, "local/lib") && hides(second, "bin/key"));
  EXPECT_TRUE(hides(first, "local/secret")) << "sandboxes may be using it";
  ASSERT_EQ(::chmod((usr() / "local").c_str(), 0700), 0);
  const std::string third = mask.layer().value_or("");
  EXPECT_TRUE(hides(third, "local"));
  ASSERT_EQ(::chmod((usr() / "local").c_str(), 0755), 0);
  EXPECT_EQ(mask.layer().value_or(""), second) << "open again, and what is closed below it is hidden";
}

TEST_F(HostMaskTest, PackagesAreLookedThroughAtAnyDepth) {
  directory("share", 0755);
  directory("share/a", 0755);
  directory("share/a/b", 0755);
  directory("share/a/b/c", 0755);
  HostMask mask = this->mask();
  EXPECT_EQ(mask.layer().value_or("none"), "");
  directory("share/a/b/c/closed", 0700);
  std::ofstream(dir_ / "packages/status-new") << "x";
  fs::rename(dir_ / "packages/status-new", dir_ / "packages/status");
  EXPECT_TRUE(hides(mask.layer().value_or(""), "share/a/b/c/closed"));
}

TEST_F(HostMaskTest, AClosedUsrIsAnError) {
  ASSERT_EQ(::chmod(usr().c_str(), 0700), 0);
  HostMask mask = this->mask();
  EXPECT_FALSE(mask.layer());
  ASSERT_EQ(::chmod(usr().c_str(), 0755), 0);
  EXPECT_TRUE(mask.layer());
}

}  // namespace
}  // namespace osb::sandboxd
