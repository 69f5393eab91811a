#include "kernel/mount.h"

#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <linux/sched.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel/mount_overlay.h"
#include "kernel/namespace.h"
#include "support/temp_dir.h"
#include "sys/clone.h"
#include "sys/syscall.h"
#include "sys/text_file.h"

namespace osb::kernel {
namespace {

using sys::raw;
using sys::vfork_child;

namespace fs = std::filesystem;

constexpr std::uint32_t kBase = 5'000'000;

// Input and result of the child that mounts an overlay.
struct Task {
  int namespace_fd;
  const Overlay* overlay;
  int made = -1;  // a detached clone, in our table of descriptors
  int error = 0;
};

OSB_IN_CHILD void mount_and_clone(void* argument) {
  Task& task = *static_cast<Task*>(argument);
  if (raw(SYS_setns, task.namespace_fd, CLONE_NEWNS) < 0 || raw(SYS_unshare, CLONE_NEWNS) < 0 ||
      task.overlay->mount_in_child("/mnt") < 0) {
    task.error = errno;
  } else {
    task.made = static_cast<int>(raw(SYS_open_tree, AT_FDCWD, "/mnt", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
  }
  for (;;) raw(SYS_exit_group, 0);
}

class OverlayTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    auto userns = make_user_namespace(kBase, 65'536);
    ASSERT_TRUE(userns) << userns.error().message;
    userns_ = std::move(*userns);
    auto empty = make_empty_mount_namespace();
    ASSERT_TRUE(empty) << empty.error().message;
    empty_ = std::move(*empty);
    for (const char* name : {"upper", "work"}) fs::create_directory(dir_ / name);
  }

  std::string layer(const std::string& name, const std::string& file, const std::string& text) {
    fs::create_directory(dir_ / name);
    std::ofstream(dir_ / name / file) << text;
    return (dir_ / name).string();
  }

  Result<UniqueFd> overlay(const std::vector<std::string>& lower, const std::string& work = "work") {
    auto prepared = Overlay::prepare(
        {.lower = lower, .upper = (dir_ / "upper").string(), .work = (dir_ / work).string(), .userns = userns_.get()});
    if (!prepared) return Failure(prepared.error());
    const FileOwner owner(kBase);
    Task task{empty_.get(), &*prepared};
    auto child = vfork_child(&mount_and_clone, &task, {.clone_flags = CLONE_FILES});
    if (!child) return Failure(child.error());
    (void)sys::reap(*child);
    if (task.made < 0) return sys::from_errno("mount", task.error);
    return UniqueFd(task.made);
  }

  std::string read(int mount, const std::string& name) {
    auto text = sys::read_text(fmt::format("/proc/self/fd/{}/{}", mount, name));
    return text ? *text : text.error().message;
  }

  testing::TempDir dir_;
  UniqueFd userns_, empty_;
};

TEST_F(OverlayTest, ShowsTheTopmostLayer) {
  auto mount = overlay({layer("top", "a", "top"), layer("bottom", "a", "bottom")});
  ASSERT_TRUE(mount) << mount.error().message;
  EXPECT_EQ(read(mount->get(), "a"), "top");
}

TEST_F(OverlayTest, MapsIdsBothWays) {
  const std::string lower = layer("lower", "a", "x");
  ASSERT_EQ(::chown((lower + "/a").c_str(), 3, 4), 0);
  auto mount = overlay({lower});
  ASSERT_TRUE(mount) << mount.error().message;
  struct stat st{};
  ASSERT_EQ(::fstatat(mount->get(), "a", &st, 0), 0);
  EXPECT_EQ(st.st_uid, kBase + 3);
  EXPECT_EQ(st.st_gid, kBase + 4);
  {
    const FileOwner owner(kBase + 9);
    const UniqueFd made(::openat(mount->get(), "new", O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
    ASSERT_TRUE(made) << strerror(errno);
  }
  ASSERT_EQ(::stat((dir_ / "upper/new").c_str(), &st), 0);
  EXPECT_EQ(st.st_uid, 9U);
  EXPECT_EQ(st.st_gid, 9U);
  EXPECT_EQ(::openat(mount->get(), "foreign", O_CREAT | O_WRONLY | O_CLOEXEC, 0644), -1) << "0 is not in the map";
}

TEST_F(OverlayTest, OfFiveHundredLayers) {
  std::vector<std::string> lower;
  for (int i = 0; i < 500; ++i) lower.push_back(layer(fmt::format("layer-{}", i), fmt::format("f{}", i), "x"));
  auto mount = overlay(lower);
  ASSERT_TRUE(mount) << mount.error().message;
  EXPECT_EQ(read(mount->get(), "f0"), "x");
  EXPECT_EQ(read(mount->get(), "f499"), "x");
  lower.push_back(lower.front());
  const auto refused = overlay(lower);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::InvalidRequest);
}

TEST_F(OverlayTest, LeavesNoMountAndNoDescriptor) {
  const std::string lower = layer("lower", "a", "x");
  ASSERT_TRUE(overlay({lower}));
  const std::string before = sys::read_text("/proc/self/mountinfo").value_or("");
  const auto count = [] { return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()); };
  const auto descriptors = count();
  EXPECT_FALSE(overlay({lower})) << "work is used up: it is volatile";
  EXPECT_FALSE(overlay({lower, "/nonexistent"}));
  EXPECT_EQ(count(), descriptors);
  EXPECT_EQ(sys::read_text("/proc/self/mountinfo").value_or(""), before);
}

TEST_F(OverlayTest, HasNoDeviceNodes) {
  const std::string lower = layer("lower", "a", "x");
  ASSERT_EQ(::mknod((lower + "/null").c_str(), S_IFCHR | 0666, 0x103), 0);
  auto mount = overlay({lower});
  ASSERT_TRUE(mount) << mount.error().message;
  EXPECT_EQ(::openat(mount->get(), "null", O_RDONLY | O_CLOEXEC), -1);
  EXPECT_EQ(errno, EACCES);
}

TEST_F(OverlayTest, NamesTheLayerThatCannotBeMapped) {
  const auto mount = overlay({layer("lower", "a", "x"), "/proc/fs"});
  ASSERT_FALSE(mount);
  EXPECT_EQ(mount.error().code, Code::Unsupported);
  EXPECT_THAT(mount.error().message, ::testing::HasSubstr("map the ids of /proc/fs: "));
}

TEST_F(OverlayTest, WantsUpperAndWorkInOneDirectory) {
  const auto mount = overlay({layer("lower", "a", "x")}, "upper/work");
  ASSERT_FALSE(mount);
  EXPECT_EQ(mount.error().code, Code::InvalidRequest);
}

TEST(FileOwner, OwnsNewFilesAndKeepsCapabilities) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  const testing::TempDir dir;
  struct stat st{};
  {
    const FileOwner owner(kBase);
    std::ofstream(dir / "made") << "x";  // 0700 directory of root: only a capability opens it
  }
  std::ofstream(dir / "after") << "x";
  ASSERT_EQ(::stat((dir / "made").c_str(), &st), 0);
  EXPECT_EQ(st.st_uid, kBase);
  ASSERT_EQ(::stat((dir / "after").c_str(), &st), 0);
  EXPECT_EQ(st.st_uid, 0U);
}

TEST(FsContext, SaysWhatTheKernelSaid) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  auto context = FsContext::open("tmpfs");
  ASSERT_TRUE(context) << context.error().message;
  const auto set = context->set("size", "many");
  ASSERT_FALSE(set);
  EXPECT_THAT(set.error().message, ::testing::StartsWith("tmpfs: size=many: "));
  EXPECT_THAT(set.error().message, ::testing::HasSubstr("Bad value for 'size'"));
}

TEST(CloneMount, IsDetachedAndTakesAttributes) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  const testing::TempDir dir;
  const std::string before = sys::read_text("/proc/self/mountinfo").value_or("");
  auto mount = clone_mount(AT_FDCWD, dir.path().string());
  ASSERT_TRUE(mount) << mount.error().message;
  ASSERT_TRUE(set_mount_attributes(mount->get(), MOUNT_ATTR_RDONLY));
  EXPECT_EQ(::openat(mount->get(), "new", O_CREAT | O_WRONLY | O_CLOEXEC, 0644), -1);
  EXPECT_EQ(errno, EROFS);
  std::ofstream(dir / "new") << "x";
  EXPECT_TRUE(fs::exists(dir / "new")) << "elsewhere it is writable as before";
  EXPECT_EQ(sys::read_text("/proc/self/mountinfo").value_or(""), before);
}

}  // namespace
}  // namespace osb::kernel
