#include "execd/owner/identity.h"

#include <barrier>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "support/temp_dir.h"
#include "sys/syscall.h"

namespace osb::execd {
namespace {

namespace fs = std::filesystem;

constexpr Identity kNobody{65534, 65533};

int open_error(const std::string& path, int flags) {
  const auto file = sys::open_at(AT_FDCWD, path, flags);
  return file ? 0 : file.error().sys_errno;
}

TEST(ParseIdentity, TakesTwoNumbersThatTheKernelWouldNotIgnore) {
  EXPECT_EQ(parse_identity("0", "4294967294").value(), (Identity{0, 4294967294}));
  for (const char* bad : {"", "4294967295", "-1", "+1", " 1", "1 ", "0x1", "root", "99999999999"}) {
    EXPECT_EQ(parse_identity(bad, "0").error().code, Code::InvalidRequest) << bad;
    EXPECT_EQ(parse_identity("0", bad).error().code, Code::InvalidRequest) << bad;
  }
}

class IdentityScopeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can act as another user";
    // TempDir is ours alone.
    for (fs::path up = dir_.path(); up != fs::temp_directory_path() && up.has_relative_path(); up = up.parent_path()) {
      ::chmod(up.c_str(), 0755);
    }
    std::ofstream(dir_ / "secret") << "root's";
    ::chmod((dir_ / "secret").c_str(), 0600);
    std::ofstream(dir_ / "group") << "root's group's";
    ::chmod((dir_ / "group").c_str(), 0640);
  }

  std::string at(const char* name) const { return (dir_ / name).string(); }

  testing::TempDir dir_;
};

TEST_F(IdentityScopeTest, TakesRightsAndGivesThemBack) {
  std::vector<gid_t> before(static_cast<std::size_t>(::getgroups(0, nullptr)));
  ASSERT_GE(::getgroups(static_cast<int>(before.size()), before.data()), 0);
  {
    const auto scope = IdentityScope::enter(kNobody);
    ASSERT_TRUE(scope) << scope.error().message;
    EXPECT_EQ(own_identity(), kNobody);
    gid_t groups[64];
    ASSERT_EQ(::getgroups(64, groups), 1) << "none of the daemon's groups";
    EXPECT_EQ(groups[0], kNobody.gid);
    EXPECT_EQ(open_error(at("secret"), O_RDONLY), EACCES);
    EXPECT_EQ(open_error(at("group"), O_RDONLY), EACCES);
    EXPECT_EQ(open_error(at("new"), O_WRONLY | O_CREAT), EACCES);
    EXPECT_LT(::chown(at("secret").c_str(), kNobody.uid, kNobody.gid), 0);
    EXPECT_LT(::chmod(at("secret").c_str(), 0666), 0);
    // Its rules look at the effective user, not at the one for files.
    EXPECT_EQ(open_error("/proc/sys/kernel/core_pattern", O_WRONLY), EACCES);
    EXPECT_EQ(open_error("/proc/self/environ", O_RDONLY), EACCES);
    EXPECT_EQ(open_error("/proc/1/environ", O_RDONLY), EACCES);
  }
  EXPECT_EQ(own_identity(), (Identity{0, 0}));
  std::vector<gid_t> after(static_cast<std::size_t>(::getgroups(0, nullptr)));
  ASSERT_GE(::getgroups(static_cast<int>(after.size()), after.data()), 0);
  EXPECT_EQ(after, before);
  EXPECT_EQ(open_error(at("secret"), O_RDONLY), 0) << "and the capabilities are back";
}

TEST_F(IdentityScopeTest, OtherThreadsKeepTheirs) {
  std::barrier<> step(2);
  Identity seen[2];
  std::thread other([&] {
    const auto scope = IdentityScope::enter({1000, 1000});
    step.arrive_and_wait();  // both are inside theirs
    seen[0] = own_identity();
    step.arrive_and_wait();
  });
  {
    step.arrive_and_wait();
    EXPECT_EQ(own_identity(), (Identity{0, 0}));
    const auto scope = IdentityScope::enter(kNobody);
    ASSERT_TRUE(scope);
    seen[1] = own_identity();
    step.arrive_and_wait();
  }
  other.join();
  EXPECT_EQ(seen[0], (Identity{1000, 1000}));
  EXPECT_EQ(seen[1], kNobody);
}

TEST_F(IdentityScopeTest, WithoutPrivilegeItFailsAndChangesNothing) {
  const auto outer = IdentityScope::enter(kNobody);
  ASSERT_TRUE(outer);
  const auto inner = IdentityScope::enter({1000, 1000});
  ASSERT_FALSE(inner);
  EXPECT_EQ(inner.error().reason, "FILESYSTEM_IDENTITY_UNAVAILABLE");
  EXPECT_EQ(own_identity(), kNobody);
}

TEST(RefuseMagicLinks, RefusesOnlyThose) {
  const testing::TempDir dir;
  std::ofstream(dir / "file") << "x";
  fs::create_symlink("file", dir / "link");
  fs::create_symlink("gone", dir / "dangling");
  fs::create_symlink("/proc/self", dir / "self");
  fs::create_symlink("self/fd/0", dir / "stdin");
  fs::create_symlink("round", dir / "round");
  fs::create_symlink("../" + dir.path().filename().string() + "/./link", dir / "up");
  for (const char* fine : {"file", "link", "dangling", "link/x", "none/x", "up", "self/status"}) {
    EXPECT_TRUE(refuse_magic_links((dir / fine).string())) << fine;
    EXPECT_EQ(refuse_proc_links((dir / fine).string()).has_value(), fine != std::string("self/status")) << fine;
  }
  for (const fs::path& bad : {fs::path("/proc/self/root"), fs::path("/proc/self/root/etc/passwd"),
                              fs::path("/proc/self/cwd/none"), fs::path("/proc/self/fd/0"), fs::path("/proc/self/exe"),
                              dir / "self/fd/0", dir / "stdin", dir / "self/root/etc", dir / "round"}) {
    const auto refused = refuse_magic_links(bad.string());
    ASSERT_FALSE(refused) << bad;
    EXPECT_EQ(refused.error().sys_errno, ELOOP) << bad;
    const auto by_hand = refuse_proc_links(bad.string());
    ASSERT_FALSE(by_hand) << bad;
    EXPECT_EQ(by_hand.error().sys_errno, ELOOP) << bad;
  }
}

}  // namespace
}  // namespace osb::execd
