#include "sandboxd/volume/volume_store.h"

#include <atomic>
#include <csignal>
#include <cstdio>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <thread>

#include "kernel/mount.h"
#include "sandboxd/volume/volume_fixture.h"

namespace osb::sandboxd {
namespace {

namespace fs = std::filesystem;
using namespace osb::testing;
using namespace osb::sandboxd::testing;
using Kind = VolumeKind;

// A file of a volume as a process of the sandbox would see it, read through the detached mount.
std::string read_in(const PreparedMount& mount, const char* name) {
  const UniqueFd fd(::openat(mount.mount.get(), name, O_RDONLY | O_CLOEXEC));
  if (!fd) return fmt::format("<{}>", std::generic_category().message(errno));
  char text[256];
  const ssize_t size = ::read(fd.get(), text, sizeof text);
  return {text, static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
}

int create_in(const PreparedMount& mount, const char* name) {
  const kernel::FileOwner as_root_inside(kIdBase);
  const UniqueFd fd(::openat(mount.mount.get(), name, O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
  return fd ? 0 : errno;
}

class Volumes : public VolumeFixture {
 protected:
  void make_host() override {
    fs::create_directories(dir_ / "data/sub");
    fs::create_directories(dir_ / "database");
    fs::create_directories(dir_ / "secret");
    write_text_file(dir_ / "data/file", "data");
    write_text_file(dir_ / "data/sub/file", "sub");
    write_text_file(dir_ / "database/file", "database");
    write_text_file(dir_ / "secret/file", "secret");
    config_.allowed_host_paths = {dir_ / "data"};
    reopen();
  }
  void reopen() {
    store_.reset();
    auto opened = VolumeStore::open(config_);
    ASSERT_TRUE(opened) << opened.error().message;
    store_ = std::move(*opened);
  }
  Result<PreparedVolumes> prepare(std::vector<Volume> specs) { return store_->prepare(specs, userns_.get(), kIdBase); }
  std::string reason(Volume spec) {
    const auto prepared = prepare({std::move(spec)});
    if (prepared) return "accepted, shows " + read_in(prepared->mounts.front(), "file");
    return prepared.error().reason;
  }
  Volume host(const fs::path& path, std::string sub_path = "") {
    return {.kind = Kind::Host, .source = path.string(), .sub_path = std::move(sub_path), .target = "/mnt"};
  }
  std::vector<std::string> names() { return store_->list().value_or(std::vector<std::string>{"<failed>"}); }
};

using Names = std::vector<std::string>;

// --- named volumes -----------------------------------------------------------------------------------------------

TEST_F(Volumes, ANamedVolumeKeepsFilesWithIdsAsInside) {
  auto first = prepare({{.kind = Kind::Named, .source = "v1", .target = "/a", .create = true}});
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->created, Names{"v1"});
  EXPECT_EQ(first->to_delete, Names{});
  ASSERT_EQ(create_in(first->mounts[0], "made"), 0);
  struct stat st;
  ASSERT_EQ(::stat((config_.directory / "v1/made").c_str(), &st), 0);
  EXPECT_EQ(st.st_uid, 0u) << "on disk";
  ASSERT_EQ(::fstatat(first->mounts[0].mount.get(), "made", &st, 0), 0);
  EXPECT_EQ(st.st_uid, kIdBase) << "through the mount, as the host sees it";
  ASSERT_EQ(::stat(config_.directory.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0700u) << "setuid files in it are out of reach";

  const auto second =
      prepare({{.kind = Kind::Named, .source = "v1", .target = "/b", .create = true, .delete_with_sandbox = true}});
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(second->created, Names{});
  EXPECT_EQ(second->to_delete, Names{}) << "only the request that made it may delete it";
  EXPECT_EQ(read_in(second->mounts[0], "made"), "");
}

TEST_F(Volumes, AMissingVolumeIsMadeOnlyWhenAsked) {
  EXPECT_EQ(reason({.kind = Kind::Named, .source = "v1", .target = "/a"}), "VOLUME::PVC_NOT_FOUND");
  EXPECT_EQ(names(), Names{});
  const auto made =
      prepare({{.kind = Kind::Named, .source = "v1", .target = "/a", .create = true, .delete_with_sandbox = true},
               {.kind = Kind::Named, .source = "v1", .target = "/b", .create = true, .delete_with_sandbox = true}});
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->to_delete, Names{"v1"});
  EXPECT_EQ(names(), Names{"v1"});
}

TEST_F(Volumes, RemovalIsRefusedWhileInUse) {
  ASSERT_TRUE(store_->create("v1"));
  EXPECT_EQ(store_->create("v1").error().code, Code::Conflict);
  auto prepared = prepare({{.kind = Kind::Named, .source = "v1", .target = "/a"}});
  ASSERT_TRUE(prepared);
  EXPECT_EQ(store_->remove("v1", 0).error().code, Code::Conflict) << "prepared";
  prepared->in_use.reset();
  EXPECT_EQ(store_->remove("v1", 1).error().code, Code::Conflict) << "counted by the caller";
  EXPECT_TRUE(store_->remove("v1", 0));
  EXPECT_EQ(store_->remove("v1", 0).error().reason, "VOLUME::PVC_NOT_FOUND");
  EXPECT_EQ(names(), Names{});
  EXPECT_TRUE(fs::is_empty(config_.directory / ".tmp"));
}

TEST_F(Volumes, AFailedRequestLeavesNoVolume) {
  ASSERT_TRUE(store_->create("old"));
  auto other = prepare({{.kind = Kind::Named, .source = "shared", .target = "/a", .create = true}});
  ASSERT_TRUE(other);
  const auto failed = prepare({{.kind = Kind::Named, .source = "new", .target = "/a", .create = true},
                               {.kind = Kind::Named, .source = "old", .target = "/b", .create = true},
                               {.kind = Kind::Named, .source = "shared", .target = "/c", .create = true},
                               {.kind = Kind::Named, .source = "missing", .target = "/d"}});
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().reason, "VOLUME::PVC_NOT_FOUND");
  EXPECT_EQ(names(), (Names{"old", "shared"}));
}

TEST_F(Volumes, AVolumeThatAnotherRequestUsesOutlivesTheOneThatMadeIt) {
  std::optional<PreparedVolumes> other;
  config_.after_step = [&](std::string_view step) {
    if (step != "volume opened" || other) return;
    config_.after_step = nullptr;
    auto prepared = prepare({{.kind = Kind::Named, .source = "new", .target = "/a"}});
    ASSERT_TRUE(prepared) << prepared.error().message;
    other = std::move(*prepared);
  };
  auto hook = [this](std::string_view step) {
    if (config_.after_step) config_.after_step(step);
  };
  VolumeConfig config = config_;
  config.after_step = hook;
  auto opened = VolumeStore::open(config);
  ASSERT_TRUE(opened);
  store_ = std::move(*opened);
  const auto failed = prepare({{.kind = Kind::Named, .source = "new", .target = "/a", .create = true},
                               {.kind = Kind::Named, .source = "missing", .target = "/d"}});
  ASSERT_FALSE(failed);
  ASSERT_TRUE(other);
  EXPECT_EQ(names(), Names{"new"});
}

TEST_F(Volumes, ACrashLeavesAWholeVolumeOrNone) {
  ASSERT_TRUE(store_->create("kept"));
  write_text_file(config_.directory / "kept/file", "kept");
  struct {
    const char* step;
    Names want;
  } rows[] = {{"volume staged", {"kept"}}, {"volume published", {"kept", "new"}}, {"volume withdrawn", {"new"}}};
  for (const auto& row : rows) {
    const pid_t child = ::fork();
    if (child == 0) {
      VolumeConfig config = config_;
      config.after_step = [&](std::string_view step) {
        if (step == row.step) ::raise(SIGKILL);
      };
      auto store = VolumeStore::open(config);
      if (store) static_cast<void>((*store)->create("new"));
      if (store) static_cast<void>((*store)->remove("kept", 0));
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << row.step;
    reopen();
    EXPECT_EQ(names(), row.want) << row.step;
    EXPECT_TRUE(fs::is_empty(config_.directory / ".tmp")) << row.step;
    if (std::string_view(row.step) == "volume published") ASSERT_TRUE(store_->remove("new", 0));
    if (std::string_view(row.step) == "volume published") ASSERT_TRUE(store_->create("new"));
  }
}

// --- mounts ------------------------------------------------------------------------------------------------------

TEST_F(Volumes, MountsAreNosuidAndNodevAndReadOnlyWhenAsked) {
  for (const bool read_only : {false, true}) {
    auto specs = std::vector<Volume>{
        {.kind = Kind::Named, .source = "v", .target = "/b/c", .read_only = read_only, .create = true},
        {.kind = Kind::Host, .source = (dir_ / "data").string(), .target = "/b", .read_only = read_only},
        {.kind = Kind::Tmpfs, .target = "/a", .read_only = read_only, .size_bytes = 1 << 20}};
    const auto prepared = prepare(specs);
    ASSERT_TRUE(prepared) << prepared.error().message;
    ASSERT_EQ(prepared->mounts.size(), 3u);
    EXPECT_EQ(prepared->mounts[1].target, "/b") << "parents first";
    EXPECT_EQ(prepared->mounts[2].target, "/b/c");
    for (const PreparedMount& mount : prepared->mounts) {
      struct statvfs st;
      ASSERT_EQ(::fstatvfs(mount.mount.get(), &st), 0);
      EXPECT_TRUE(st.f_flag & ST_NOSUID) << mount.target;
      EXPECT_TRUE(st.f_flag & ST_NODEV) << mount.target;
      EXPECT_EQ((st.f_flag & ST_RDONLY) != 0, read_only) << mount.target;
      EXPECT_EQ(create_in(mount, "made"), read_only ? EROFS : 0) << mount.target;
      EXPECT_EQ(mount.read_only, read_only);
    }
  }
}

TEST_F(Volumes, ReadOnlyHoldsForMountsBelowTooAndTheHostsStayAsTheyAre) {
  const ScopedMount below("none", dir_ / "data/sub", "tmpfs", 0, "mode=0755");
  write_text_file(dir_ / "data/sub/file", "below");
  Volume spec = host(dir_ / "data");
  spec.read_only = true;
  const auto prepared = prepare({spec});
  ASSERT_TRUE(prepared) << prepared.error().message;
  EXPECT_EQ(read_in(prepared->mounts[0], "sub/file"), "below");
  EXPECT_EQ(create_in(prepared->mounts[0], "sub/made"), EROFS);
  write_text_file(dir_ / "data/sub/made", "by the host");
  EXPECT_EQ(read_in(prepared->mounts[0], "sub/made"), "by the host");
}

TEST_F(Volumes, ATmpfsBelongsToRootInsideAndIsAsLargeAsAsked) {
  const auto prepared =
      prepare({{.kind = Kind::Tmpfs, .target = "/a", .size_bytes = 1 << 20}, {.kind = Kind::Tmpfs, .target = "/b"}});
  ASSERT_TRUE(prepared) << prepared.error().message;
  struct stat st;
  ASSERT_EQ(::fstat(prepared->mounts[0].mount.get(), &st), 0);
  EXPECT_EQ(st.st_uid, kIdBase);
  EXPECT_EQ(st.st_gid, kIdBase);
  EXPECT_EQ(st.st_mode & 07777, 01777u);
  struct statvfs size;
  ASSERT_EQ(::fstatvfs(prepared->mounts[0].mount.get(), &size), 0);
  EXPECT_EQ(size.f_blocks * size.f_frsize, 1u << 20);
  ASSERT_EQ(::fstatvfs(prepared->mounts[1].mount.get(), &size), 0);
  EXPECT_EQ(size.f_blocks * size.f_frsize, kDefaultTmpfsBytes);
}

TEST_F(Volumes, AFileSystemThatCannotMapIdsIsNamed) {
  config_.allowed_host_paths = {"/proc"};
  reopen();
  const auto prepared = prepare({host("/proc/sys")});
  ASSERT_FALSE(prepared);
  EXPECT_EQ(prepared.error().code, Code::Unsupported);
  EXPECT_EQ(prepared.error().reason, "VOLUME::UNSUPPORTED_BACKEND");
}

TEST_F(Volumes, ForeignHostPathsGiveOnlyWhatOthersMay) {
  config_.host_ids = HostIds::Foreign;
  reopen();
  const auto prepared = prepare({host(dir_ / "data")});
  ASSERT_TRUE(prepared) << prepared.error().message;
  struct stat st;
  ASSERT_EQ(::fstatat(prepared->mounts[0].mount.get(), "file", &st, 0), 0);
  EXPECT_EQ(st.st_uid, 0u) << "unmapped: nobody, seen from inside";
}

// --- host paths --------------------------------------------------------------------------------------------------

TEST_F(Volumes, HostPathsMustBeAllowed) {
  fs::create_directory_symlink(dir_ / "secret", dir_ / "data/out");
  fs::create_directory_symlink("../secret", dir_ / "data/relative_out");
  fs::create_directory_symlink("/proc/self/root", dir_ / "data/magic");
  fs::create_directory_symlink("/proc/self/cwd", dir_ / "data/cwd");
  fs::create_directory_symlink(dir_ / "data/sub", dir_ / "data/inside");
  fs::create_directory_symlink("loop", dir_ / "data/loop");
  fs::create_directory_symlink(dir_ / "data", dir_ / "alias");
  ASSERT_EQ(::mkfifo((dir_ / "data/pipe").c_str(), 0600), 0);
  make_socket(dir_ / "data/socket");
  const std::string refused = "VOLUME::HOST_PATH_NOT_ALLOWED";
  struct {
    const char* why;
    fs::path path;
    std::string want;
  } rows[] = {
      {"the path itself", dir_ / "data", "accepted, shows data"},
      {"below", dir_ / "data/sub", "accepted, shows sub"},
      {"a link that stays inside", dir_ / "data/inside", "accepted, shows sub"},
      {"elsewhere", dir_ / "secret", refused},
      {"only the same letters", dir_ / "database", refused},
      {"above", dir_.path(), refused},
      {"the root", "/", refused},
      {"a link out", dir_ / "data/out", refused},
      {"below a link out", dir_ / "data/out/file", refused},
      {"a relative link out", dir_ / "data/relative_out", refused},
      {"a magic link", fs::path(dir_ / "data/magic" += dir_.path() / "data/sub"), refused},
      {"another magic link", dir_ / "data/cwd", refused},
      {"through /proc", fs::path("/proc/self/root" + (dir_ / "data").string()), refused},
      {"links in a circle", dir_ / "data/loop", refused},
      {"a link from outside", dir_ / "alias/sub", refused},
      {"a pipe", dir_ / "data/pipe", refused},
      {"a socket", dir_ / "data/socket", refused},
      {"missing", dir_ / "data/none", "VOLUME::HOST_PATH_NOT_FOUND"},
      {"missing elsewhere", dir_ / "none", refused},
  };
  for (const auto& row : rows) EXPECT_EQ(reason(host(row.path)), row.want) << row.why;

  config_.allowed_host_paths = {};
  reopen();
  EXPECT_EQ(reason(host(dir_ / "data")), refused) << "nothing is allowed by default";
}

TEST_F(Volumes, AnAllowedPathMayItselfBeALink) {
  fs::create_directory_symlink(dir_ / "data", dir_ / "alias");
  config_.allowed_host_paths = {dir_ / "alias"};
  reopen();
  EXPECT_EQ(reason(host(dir_ / "alias/sub")), "accepted, shows sub");
  EXPECT_EQ(reason(host(dir_ / "data/sub")), "accepted, shows sub");
  // Where it leads was decided when the store was opened.
  fs::remove(dir_ / "alias");
  fs::create_directory_symlink(dir_ / "secret", dir_ / "alias");
  EXPECT_EQ(reason(host(dir_ / "alias")), "VOLUME::HOST_PATH_NOT_ALLOWED");
}

TEST_F(Volumes, OurOwnStateIsNeverAVolume) {
  config_.allowed_host_paths = {dir_.path()};
  reopen();
  const std::string refused = "VOLUME::HOST_PATH_NOT_ALLOWED";
  EXPECT_EQ(reason(host(dir_ / "state")), refused);
  EXPECT_EQ(reason(host(dir_ / "state/volumes")), refused);
  EXPECT_EQ(reason(host(dir_.path())), refused) << "it would show the state below";
  Volume made = host(dir_ / "state/volumes/planted");
  made.create = true;
  EXPECT_EQ(reason(made), refused);
  EXPECT_EQ(names(), Names{});
  EXPECT_EQ(reason(host(dir_ / "data")), "accepted, shows data");
}

TEST_F(Volumes, AHostPathMayBeAFile) {
  const auto prepared =
      prepare({host(dir_ / "data/file"), {.kind = Kind::Named, .source = "v", .target = "/v", .create = true}});
  ASSERT_TRUE(prepared) << prepared.error().message;
  EXPECT_FALSE(prepared->mounts[0].is_directory);
  EXPECT_TRUE(prepared->mounts[1].is_directory);
  EXPECT_EQ(reason(host(dir_ / "data/file", "x")), "VOLUME::INVALID_SUB_PATH");
}

TEST_F(Volumes, MissingHostDirectoriesAreMadeOnlyBelowAllowedPaths) {
  Volume spec = host(dir_ / "data/x/y/z");
  spec.create = true;
  const mode_t before = ::umask(0077);
  const auto prepared = prepare({spec});
  ::umask(before);
  ASSERT_TRUE(prepared) << prepared.error().message;
  struct stat st;
  ASSERT_EQ(::stat((dir_ / "data/x/y/z").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0755u) << "independent of our umask";

  fs::create_directory_symlink(dir_ / "secret", dir_ / "data/out");
  spec.source = (dir_ / "data/out/made").string();
  const auto out = prepare({spec});
  ASSERT_FALSE(out);
  EXPECT_FALSE(fs::exists(dir_ / "secret/made"));

  config_.allowed_host_paths = {dir_ / "nowhere/deep"};
  reopen();
  spec.source = (dir_ / "nowhere/deep/x").string();
  EXPECT_EQ(reason(spec), "VOLUME::HOST_PATH_CREATE_FAILED");
  EXPECT_FALSE(fs::exists(dir_ / "nowhere"));
}

// --- sub-paths ---------------------------------------------------------------------------------------------------

TEST_F(Volumes, SubPathsCannotLeadOut) {
  ASSERT_TRUE(store_->create("v"));
  const fs::path root = config_.directory / "v";
  fs::create_directories(root / "a/b");
  write_text_file(root / "a/file", "in a");
  fs::create_directory_symlink("a", root / "to_a");
  fs::create_directory_symlink("../a", root / "a/around");
  fs::create_directory_symlink("/", root / "absolute");
  fs::create_directory_symlink("../..", root / "up");
  fs::create_directory_symlink("/proc/self/root", root / "magic");
  fs::create_symlink(dir_ / "secret/file", root / "file_out");
  struct {
    const char* sub_path;
    std::string want;
  } rows[] = {
      {"a", "accepted, shows in a"},
      {"to_a", "accepted, shows in a"},
      {"a/around", "accepted, shows in a"},
      {"absolute", "VOLUME::INVALID_SUB_PATH"},
      {"absolute/etc", "VOLUME::INVALID_SUB_PATH"},
      {"up", "VOLUME::INVALID_SUB_PATH"},
      {"up/volumes", "VOLUME::INVALID_SUB_PATH"},
      {"magic", "VOLUME::INVALID_SUB_PATH"},
      {"file_out", "VOLUME::INVALID_SUB_PATH"},
      {"../v", "VOLUME::INVALID_SUB_PATH"},
      {"/etc", "VOLUME::INVALID_SUB_PATH"},
      {"none", "VOLUME::INVALID_SUB_PATH"},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(reason({.kind = Kind::Named, .source = "v", .sub_path = row.sub_path, .target = "/x"}), row.want)
        << row.sub_path;
  }
  EXPECT_EQ(reason({.kind = Kind::Named, .source = "v", .sub_path = "up/made", .target = "/x", .create = true}),
            "VOLUME::INVALID_SUB_PATH");
  EXPECT_FALSE(fs::exists(dir_ / "state/made"));
  const auto made =
      prepare({{.kind = Kind::Named, .source = "v", .sub_path = "new/deep", .target = "/x", .create = true}});
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_TRUE(fs::is_directory(root / "new/deep"));
}

// --- races -------------------------------------------------------------------------------------------------------

// Swaps two names as fast as it can while it exists.
class Flipper {
 public:
  Flipper(const fs::path& a, const fs::path& b)
      : thread_([=](std::stop_token stop) {
          while (!stop.stop_requested()) ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE);
        }) {}

 private:
  std::jthread thread_;
};

TEST_F(Volumes, SwappingADirectoryForALinkBetweenCheckAndUseShowsNothing) {
  fs::create_directories(dir_ / "data/d");
  write_text_file(dir_ / "data/d/file", "inside");
  VolumeConfig config = config_;
  bool swapped = false;
  config.after_step = [&](std::string_view step) {
    if (step != "host path checked") return;
    swapped = true;
    fs::remove_all(dir_ / "data/d");
    fs::create_directory_symlink(dir_ / "secret", dir_ / "data/d");
  };
  auto store = VolumeStore::open(config);
  ASSERT_TRUE(store);
  store_ = std::move(*store);
  EXPECT_EQ(reason(host(dir_ / "data/d")), "VOLUME::HOST_PATH_NOT_ALLOWED");
  EXPECT_TRUE(swapped);
}

TEST_F(Volumes, FlippingDirectoriesAndLinksNeverShowsWhatIsOutside) {
  ASSERT_TRUE(store_->create("v"));
  const fs::path volume = config_.directory / "v";
  for (const fs::path& root : {volume, dir_ / "data"}) {
    fs::create_directories(root / "p/d");
    write_text_file(root / "p/d/file", "inside");
    fs::create_directory_symlink(dir_ / "secret", root / "p/link");
    fs::create_directories(root / "q");
    // The parent moves too: ".." resolved while it happens must not lead out either.
    fs::create_directory_symlink("../q/../p/d", root / "p/around");
  }
  const std::vector<Volume> specs = {
      {.kind = Kind::Named, .source = "v", .sub_path = "p/d", .target = "/a"},
      {.kind = Kind::Named, .source = "v", .sub_path = "p/around", .target = "/a"},
      host(dir_ / "data/p/d"),
      host(dir_ / "data", "p/d"),
      host(dir_ / "data", "p/around"),
  };
  int shown = 0, refused = 0;
  {
    const Flipper in_volume(volume / "p/d", volume / "p/link");
    const Flipper in_host(dir_ / "data/p/d", dir_ / "data/p/link");
    const Flipper parents(volume / "p", volume / "q");
    for (int round = 0; round < 2000; ++round) {
      const auto prepared = prepare({specs[static_cast<std::size_t>(round) % specs.size()]});
      if (!prepared) {
        ++refused;
        EXPECT_TRUE(prepared.error().reason == "VOLUME::INVALID_SUB_PATH" ||
                    prepared.error().reason.starts_with("VOLUME::HOST_PATH_NOT_"))
            << prepared.error().message;
        continue;
      }
      ++shown;
      ASSERT_EQ(read_in(prepared->mounts[0], "file"), "inside");
    }
  }
  EXPECT_GT(shown, 0);
  EXPECT_GT(refused, 0) << "the race was never hit: the test proves nothing";
}

}  // namespace
}  // namespace osb::sandboxd
