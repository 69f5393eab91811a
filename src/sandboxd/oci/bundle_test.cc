#include "sandboxd/oci/bundle.h"

#include <future>

#include "kernel/mount.h"
#include "sandboxd/launch/launch_fixture.h"
#include "sys/text_file.h"

namespace osb::sandboxd {
namespace {

namespace fs = std::filesystem;

class BundleTest : public LaunchTest {
 protected:
  // Looks at a bundle from inside its namespace.
  void in_bundle(LaunchPlan plan, const std::function<void(const Bundle&)>& look) {
    auto root = mount_bundle_root(plan);
    ASSERT_TRUE(root) << root.error().message;
    std::async(std::launch::async, [&] {
      auto bundle = enter_bundle_namespace(plan, root->get());
      ASSERT_TRUE(bundle) << bundle.error().message;
      look(*bundle);
    }).get();
  }

  static std::string source_of(const Bundle& bundle, const std::string& target) {
    for (const BundleBind& bind : bundle.binds) {
      if (bind.target == target) return bind.source;
    }
    return "";
  }
};

TEST_F(BundleTest, TheRootIsTheSameOverlayAsOfOurOwnLaunch) {
  in_bundle(plan(""), [&](const Bundle& bundle) {
    struct stat st{};
    ASSERT_EQ(::stat((bundle.root + "/bin/busybox").c_str(), &st), 0);
    EXPECT_EQ(st.st_uid, kBase) << "ids are those of the range";
    ASSERT_EQ(::mkdir((bundle.root + "/made").c_str(), 0755), -1) << "we are not in the range";
    const kernel::FileOwner owner(kBase);
    ASSERT_EQ(::mkdir((bundle.root + "/made").c_str(), 0755), 0);
  });
  EXPECT_EQ(on_disk("upper/made").st_uid, 0U) << "ids on disk are those inside";
}

TEST_F(BundleTest, NothingOfItIsSeenOutside) {
  const auto before = sys::read_text("/proc/self/mountinfo");
  in_bundle(plan(""), [&](const Bundle& bundle) {
    const auto here = sys::read_text("/proc/thread-self/mountinfo");
    EXPECT_NE(here->find(bundle.root), std::string::npos);
    EXPECT_EQ(*sys::read_text("/proc/self/mountinfo"), *before);
  });
  EXPECT_EQ(*sys::read_text("/proc/self/mountinfo"), *before);
}

TEST_F(BundleTest, RootOfTheRangeReachesEverythingThoughTheStateIsClosed) {
  LaunchPlan wanted = plan("");
  wanted.etc_hosts = "127.0.0.1 localhost\n";
  in_bundle(std::move(wanted), [&](const Bundle& bundle) {
    const std::string hosts = source_of(bundle, "/etc/hosts");
    EXPECT_EQ(*sys::read_text(hosts), "127.0.0.1 localhost\n");
    struct stat st{};
    ASSERT_EQ(::stat(hosts.c_str(), &st), 0);
    EXPECT_EQ(st.st_uid, kBase);
    for (fs::path up = fs::path(hosts).parent_path(); up != "/"; up = up.parent_path()) {
      ASSERT_EQ(::stat(up.c_str(), &st), 0);
      EXPECT_TRUE(st.st_mode & S_IXOTH) << up;
    }
  });
}

TEST_F(BundleTest, GvisorFindsNoNetworkSettingsAndAnUntouchedProc) {
  in_bundle(plan(""), [&](const Bundle&) {
    EXPECT_TRUE(fs::is_empty("/proc/sys/net"));
    EXPECT_FALSE(fs::is_empty("/sys/firmware/proc/sys/net"));
  });
}

TEST_F(BundleTest, MountPointsAndTheWorkingDirectoryAreMadeInsideTheRoot) {
  fs::create_directory(dir_ / "layer/somewhere");
  fs::create_symlink("/../../somewhere", dir_ / "layer/link");
  LaunchPlan wanted = plan("");
  wanted.cwd = "/link/deep";
  auto file = kernel::clone_mount(AT_FDCWD, "/bin/busybox");
  ASSERT_TRUE(file);
  wanted.mounts.push_back({std::move(*file), "/opt/box", false, true});
  in_bundle(std::move(wanted), [&](const Bundle& bundle) {
    EXPECT_TRUE(fs::is_directory(bundle.root + "/somewhere/deep")) << "a link does not lead out";
    EXPECT_TRUE(fs::is_regular_file(bundle.root + "/opt/box"));
    const std::string source = source_of(bundle, "/opt/box");
    EXPECT_GT(fs::file_size(source), 0U);
    // Not open(): the program may be running elsewhere, and then the answer is another one.
    EXPECT_EQ(::access(source.c_str(), W_OK), -1);
    EXPECT_EQ(errno, EROFS);
  });
  EXPECT_FALSE(fs::exists("/somewhere"));
  EXPECT_EQ(on_disk("upper/opt/box").st_uid, 0U);
}

TEST_F(BundleTest, FilesOfTheCgroupAreInOneDirectory) {
  LaunchPlan wanted = plan("");
  for (const char* name : {"cpu.stat", "memory.stat"}) {
    auto file = kernel::clone_mount(AT_FDCWD, "/proc/version");
    ASSERT_TRUE(file);
    wanted.cgroup.stat_files.emplace_back(name, std::move(*file));
  }
  in_bundle(std::move(wanted), [&](const Bundle& bundle) {
    EXPECT_TRUE(fs::is_directory(bundle.root + kOciCgroupDirectory));
    EXPECT_EQ(bundle.binds.back().target, kOciCgroupDirectory);
    EXPECT_TRUE(bundle.binds.back().read_only);
    for (const char* name : {"/cpu.stat", "/memory.stat"}) {
      EXPECT_EQ(*sys::read_text(bundle.binds.back().source + name), *sys::read_text("/proc/version"));
    }
  });
}

TEST_F(BundleTest, AReadOnlyRootStillHasItsMountPoints) {
  LaunchPlan wanted = plan("");
  wanted.read_only_root = true;
  wanted.mounts.push_back(tmpfs("/scratch/here"));
  in_bundle(std::move(wanted), [&](const Bundle& bundle) {
    EXPECT_TRUE(fs::is_directory(bundle.root + "/scratch/here"));
    const kernel::FileOwner owner(kBase);
    EXPECT_EQ(::mkdir((bundle.root + "/made").c_str(), 0755), -1);
    EXPECT_EQ(errno, EROFS);
    EXPECT_EQ(::mkdir((source_of(bundle, "/scratch/here") + "/made").c_str(), 0755), 0);
  });
}

TEST_F(BundleTest, TmpIsBoundSoThatGvisorKeepsItOnDisk) {
  in_bundle(plan(""), [&](const Bundle& bundle) { EXPECT_EQ(source_of(bundle, "/tmp"), bundle.root + "/tmp"); });
}

TEST_F(BundleTest, WithoutTmpThereIsNothingToBind) {
  fs::remove(dir_ / "layer/tmp");
  in_bundle(plan(""), [&](const Bundle& bundle) { EXPECT_EQ(source_of(bundle, "/tmp"), ""); });
}

}  // namespace
}  // namespace osb::sandboxd
