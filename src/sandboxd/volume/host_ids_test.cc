#include "sandboxd/volume/host_ids.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

#include "kernel/mount.h"
#include "sandboxd/volume/volume_fixture.h"

namespace osb::sandboxd {
namespace {

namespace fs = std::filesystem;
using namespace osb::testing;
using namespace osb::sandboxd::testing;

constexpr std::uint32_t kFileIds = 1'400'000'000;
constexpr uid_t kAlice = 54'321;  // in no passwd file
constexpr uid_t kBob = 54'322;

// <dir>/home/project is the host path. <dir> itself is made open, so that `home` decides who can reach it.
class HostIdsTest : public VolumeFixture {
 protected:
  void make_host() override {
    fs::create_directories(project_);
    ASSERT_EQ(::chmod(dir_.path().c_str(), 0755), 0);
    config_.allowed_host_paths = {dir_ / "home"};
    config_.file_ids = kFileIds;
  }
  void home(uid_t owner, mode_t mode) {
    ASSERT_EQ(::chown((dir_ / "home").c_str(), owner, owner), 0);
    ASSERT_EQ(::chmod((dir_ / "home").c_str(), mode), 0);
  }
  void project(uid_t owner, mode_t mode) {
    ASSERT_EQ(::chown(project_.c_str(), owner, owner), 0);
    ASSERT_EQ(::chmod(project_.c_str(), mode), 0);
  }
  Result<PreparedVolumes> prepare(bool read_only = false, fs::path path = {}, bool create = false) {
    auto opened = VolumeStore::open(config_);
    if (!opened) return Failure(opened.error());
    store_ = std::move(*opened);
    const Volume spec{.kind = VolumeKind::Host,
                      .source = path.empty() ? project_.string() : path.string(),
                      .target = "/mnt",
                      .read_only = read_only,
                      .create = create};
    return store_->prepare(std::span(&spec, 1), userns_.get(), kIdBase);
  }
  // The owner on disk of a file that user `inside` of the sandbox makes in the path; nothing: it may make none.
  std::optional<uid_t> owner_of_new_file(uid_t inside = 0) {
    const auto prepared = prepare();
    EXPECT_TRUE(prepared) << prepared.error().message;
    if (!prepared) return std::nullopt;
    return owner_of_new_file_in(prepared->mounts[0].mount.get(), inside);
  }
  std::optional<uid_t> owner_of_new_file_in(int mount, uid_t inside = 0) {
    // As the user: without root's capabilities over files, which a sandbox does not have.
    int made = -1;
    std::thread([&] {
      ::syscall(SYS_setresgid, kIdBase + inside, kIdBase + inside, kIdBase + inside);
      ::syscall(SYS_setresuid, kIdBase + inside, kIdBase + inside, kIdBase + inside);
      made = ::openat(mount, "made", O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
    }).join();
    if (made < 0) return std::nullopt;
    struct stat st{};
    const UniqueFd file(made);
    const UniqueFd seen(::openat(mount, ".", O_RDONLY | O_CLOEXEC));
    EXPECT_EQ(::fstat(file.get(), &st), 0);
    EXPECT_EQ(st.st_uid, kIdBase + inside) << "through the mount";
    EXPECT_EQ(::lstat((project_ / "made").c_str(), &st), 0);
    EXPECT_EQ(::unlinkat(seen.get(), "made", 0), 0);
    return st.st_uid;
  }

  const fs::path project_ = dir_ / "home/project";
};

TEST_F(HostIdsTest, RootInsideIsTheOwnerWhereNoOtherUserCanGo) {
  home(kAlice, 0700);
  project(kAlice, 0755);
  EXPECT_EQ(owner_of_new_file(), kAlice);
  home(0, 0700);
  EXPECT_EQ(owner_of_new_file(), kAlice) << "root may always look";
  project(0, 0755);
  EXPECT_EQ(owner_of_new_file(), 0u);
}

TEST_F(HostIdsTest, RootInsideIsNobodyWhereOtherUsersCanGo) {
  struct {
    const char* why;
    uid_t home_owner;
    mode_t home_mode;
    uid_t owner;
  } rows[] = {{"open to all", kAlice, 0755, kAlice},
              {"passed without being read", kAlice, 0711, kAlice},
              {"open to a group that nobody knows", kAlice, 0710, kAlice},
              {"another user's", kBob, 0700, kAlice},
              {"root's, open to all", 0, 0755, 0},
              {"root's, where a user can go", kAlice, 0700, 0}};
  for (const auto& row : rows) {
    home(row.home_owner, row.home_mode);
    project(row.owner, 0755);
    EXPECT_EQ(owner_of_new_file(), std::nullopt) << row.why;
    project(row.owner, 0777);
    EXPECT_EQ(owner_of_new_file(), kFileIds) << row.why;
  }
}

// Root inside owns it and could open it.
TEST_F(HostIdsTest, TheModeOfThePathItselfDoesNotCount) {
  home(0, 0755);
  project(kAlice, 0700);
  EXPECT_EQ(owner_of_new_file(), std::nullopt);
  project(0, 0700);
  EXPECT_EQ(owner_of_new_file(), std::nullopt);
}

TEST_F(HostIdsTest, OtherUsersInsideAreNobody) {
  home(kAlice, 0700);
  project(kAlice, 0777);
  EXPECT_EQ(owner_of_new_file(1000), kFileIds + 1000);
  home(kAlice, 0755);
  EXPECT_EQ(owner_of_new_file(1000), kFileIds + 1000);
  EXPECT_EQ(owner_of_new_file(65'535), kFileIds + 65'535);
}

TEST_F(HostIdsTest, AReadOnlyPathShowsItsOwnerUnlessThatIsRoot) {
  home(0, 0755);
  const auto owner_inside = [&] {
    const auto prepared = prepare(true);
    EXPECT_TRUE(prepared) << prepared.error().message;
    struct stat st{};
    EXPECT_EQ(::fstat(prepared->mounts[0].mount.get(), &st), 0);
    return st.st_uid;
  };
  project(kAlice, 0755);
  EXPECT_EQ(owner_inside(), kIdBase);
  project(0, 0755);
  EXPECT_NE(owner_inside(), kIdBase);
  home(0, 0700);
  EXPECT_EQ(owner_inside(), kIdBase);
}

TEST_F(HostIdsTest, SameIdsAreRefusedWhereOtherUsersCanGo) {
  config_.host_ids = HostIds::Same;
  home(0, 0755);
  project(0, 0700);
  const auto refused = prepare();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().reason, "VOLUME::HOST_PATH_NOT_ALLOWED");
  EXPECT_NE(refused.error().message.find(project_.string()), std::string::npos);
  EXPECT_NE(refused.error().message.find("host_ids"), std::string::npos) << refused.error().message;
  EXPECT_TRUE(prepare(true)) << "a read-only mount leaves nothing behind";
  home(kAlice, 0700);
  EXPECT_FALSE(prepare()) << "its owner would be root";
  home(0, 0700);
  EXPECT_EQ(owner_of_new_file(), 0u);
  project(0, 0777);
  EXPECT_EQ(owner_of_new_file(1000), 1000u);
}

TEST_F(HostIdsTest, ANewDirectoryCanBeUsedBySandboxes) {
  struct stat st{};
  const auto made = [&](const char* name) {
    const auto prepared = prepare(false, project_ / name / "below", true);
    EXPECT_TRUE(prepared) << prepared.error().message;
    EXPECT_EQ(::stat((project_ / name / "below").c_str(), &st), 0);
    EXPECT_EQ(st.st_mode & 07777, 0755u);
    return st.st_uid;
  };
  home(0, 0755);
  project(0, 0755);
  EXPECT_EQ(made("open"), kFileIds);
  project(kAlice, 0755);
  EXPECT_EQ(made("others"), kFileIds);
  home(kAlice, 0700);
  EXPECT_EQ(made("own"), kAlice);
  home(0, 0700);
  project(0, 0755);
  EXPECT_EQ(made("root"), 0u);
  config_.host_ids = HostIds::Same;
  EXPECT_EQ(made("same"), 0u);
}

TEST_F(HostIdsTest, AFileIsJudgedByTheDirectoriesAboveIt) {
  write_text_file(project_ / "file", "text");
  ASSERT_EQ(::chown((project_ / "file").c_str(), kAlice, kAlice), 0);
  const auto owner_inside = [&] {
    const auto prepared = prepare(false, project_ / "file");
    EXPECT_TRUE(prepared) << prepared.error().message;
    struct stat st{};
    EXPECT_EQ(::fstat(prepared->mounts[0].mount.get(), &st), 0);
    return st.st_uid;
  };
  home(kAlice, 0700);
  EXPECT_EQ(owner_inside(), kIdBase);
  home(kAlice, 0755);
  project(kAlice, 0700);
  EXPECT_EQ(owner_inside(), kIdBase) << "its directory is not part of the mount";
  project(kAlice, 0755);
  EXPECT_NE(owner_inside(), kIdBase);
}

}  // namespace
}  // namespace osb::sandboxd
