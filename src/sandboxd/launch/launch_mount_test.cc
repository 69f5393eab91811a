#include <fstream>

#include <fmt/format.h>

#include "kernel/mount.h"
#include "sandboxd/launch/launch_fixture.h"

namespace osb::sandboxd {
namespace {

using ::testing::HasSubstr;

class LaunchMountTest : public LaunchTest {
 protected:
  PreparedMount volume(const std::string& target, bool read_only = false) {
    std::filesystem::create_directory(dir_ / "volume");
    std::ofstream(dir_ / "volume/file") << "data\n";
    auto mount = kernel::clone_mount(AT_FDCWD, (dir_ / "volume").string());
    EXPECT_TRUE(mount);
    EXPECT_TRUE(kernel::map_mount_ids(mount->get(), userns_.get(), "volume"));
    return {std::move(*mount), target, true, read_only};
  }
};

TEST_F(LaunchMountTest, IsSeenAtItsTargetWithTheIdsOfTheInside) {
  auto wanted = plan("cat /data/in/file; echo new > /data/in/made; stat -c %u /data/in/file");
  wanted.mounts.push_back(volume("/data/in"));
  EXPECT_EQ(output_of(std::move(wanted)), "data\n0\n");
  EXPECT_EQ(on_disk("volume/made").st_uid, 0U);
}

TEST_F(LaunchMountTest, ReadOnlyIsReadOnly) {
  auto wanted = plan("cat /data/file; echo new > /data/file");
  wanted.mounts.push_back(volume("/data", true));
  EXPECT_THAT(output_of(std::move(wanted)), HasSubstr("Read-only file system"));
  EXPECT_EQ(on_disk("volume/file").st_size, 5);
}

TEST_F(LaunchMountTest, LinksOfTheImageDoNotLeadOut) {
  const std::string outside = "/../../../../.." + (dir_ / "outside").string();
  std::filesystem::create_directory(dir_ / "outside");
  std::filesystem::create_symlink(outside, dir_ / "layer/link");
  // The link's target is made inside: nothing on the host is touched.
  std::filesystem::create_directories(dir_.path().string().insert(0, (dir_ / "layer").string()) + "/outside");
  auto wanted = plan("cat /link/deeper/file");
  wanted.mounts.push_back(volume("/link/deeper"));
  EXPECT_EQ(output_of(std::move(wanted)), "data\n");
  EXPECT_TRUE(std::filesystem::is_empty(dir_ / "outside"));
}

TEST_F(LaunchMountTest, LinksIntoOurDescriptorsAreRefused) {
  std::filesystem::create_directory(dir_ / "outside");
  const UniqueFd leak(::open((dir_ / "outside").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  std::filesystem::create_symlink(fmt::format("/proc/self/fd/{}", leak.get()), dir_ / "layer/link");
  auto wanted = plan("true");
  wanted.mounts.push_back(volume("/link/deeper"));
  const auto ran = run(std::move(wanted));
  ASSERT_FALSE(ran);
  EXPECT_EQ(ran.error().message, "launch: mount /link/deeper: Too many levels of symbolic links");
  EXPECT_TRUE(std::filesystem::is_empty(dir_ / "outside"));
}

}  // namespace
}  // namespace osb::sandboxd
