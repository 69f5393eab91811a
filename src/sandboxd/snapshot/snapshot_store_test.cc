#include "sandboxd/snapshot/snapshot_store.h"

#include <csignal>
#include <future>
#include <sys/wait.h>

#include "base/id.h"
#include "kernel/copy_tree_attributes.h"
#include "kernel/copy_tree_fixture.h"
#include "sandboxd/snapshot/snapshot_export.h"
#include "support/temp_dir.h"

namespace osb::sandboxd {
namespace {

namespace fs = std::filesystem;
using namespace osb::testing;

class Snapshots : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: overlays and device nodes";
    use_private_mounts();
    fs::create_directories(dir_ / "image");
    reopen();
  }
  void reopen(SnapshotStoreOptions options = {}) {
    store_.reset();
    auto opened = SnapshotStore::open(dir_ / "snapshots", std::move(options));
    ASSERT_TRUE(opened) << opened.error().message;
    store_ = std::move(*opened);
  }
  FreezeHooks hooks() {
    return {.freeze = [this]() -> Result<void> { return ++frozen_, Result<void>(); },
            .thaw = [this]() -> Result<void> { return ++thawed_, Result<void>(); }};
  }
  Result<SnapshotInfo> capture(const std::string& id, const fs::path& upper, std::vector<std::string> below = {}) {
    const UniqueFd fd = open_directory(upper);
    return store_->capture(id, {"debian:12", "{}", {}, std::move(below)}, fd.get(), hooks());
  }
  // A tree with one file, captured.
  std::string simple(const std::string& text, std::vector<std::string> below = {}) {
    const std::string id = new_uuid();
    const fs::path upper = dir_ / ("upper-" + id);
    fs::create_directories(upper);
    write_text_file(upper / "file", text);
    const auto captured = capture(id, upper, std::move(below));
    EXPECT_TRUE(captured) << captured.error().message;
    return id;
  }
  std::vector<std::string> ids() {
    std::vector<std::string> out;
    for (const SnapshotInfo& info : store_->list()) out.push_back(info.id);
    std::ranges::sort(out);
    return out;
  }
  // The files in the store's directory besides .tmp, which must be empty.
  std::set<std::string> on_disk() {
    EXPECT_TRUE(fs::is_empty(dir_ / "snapshots/.tmp"));
    std::set<std::string> out;
    for (const auto& entry : fs::directory_iterator(dir_ / "snapshots")) out.insert(entry.path().filename());
    out.erase(".tmp");
    return out;
  }

  TempDir dir_;
  std::unique_ptr<SnapshotStore> store_;
  int frozen_ = 0;
  int thawed_ = 0;
};

using Ids = std::vector<std::string>;

// A sandbox's root as far as snapshots are concerned.
class Overlay {
 public:
  Overlay(const fs::path& place, const std::vector<fs::path>& lower) : upper(place / "upper"), place_(place) {
    fs::create_directories(upper);
    fs::create_directories(place / "work");
    // The root's own attributes are those of the upper directory: its maker copies them from the top layer.
    struct stat st;
    const UniqueFd top = open_directory(lower.front());
    const UniqueFd root = open_directory(upper);
    std::string buffer;
    EXPECT_EQ(::fstat(top.get(), &st), 0);
    EXPECT_TRUE(kernel::copy_metadata({top.get()}, {root.get()}, st, true, buffer));
    std::string options = "lowerdir=";
    for (const fs::path& path : lower) options += (options.ends_with('=') ? "" : ":") + path.string();
    options +=
        fmt::format(",upperdir={},workdir={},redirect_dir=off,metacopy=off", upper.string(), (place / "work").string());
    mount_.emplace("overlay", place / "merged", "overlay", 0, options);
  }
  fs::path merged() const { return place_ / "merged"; }
  const fs::path upper;

 private:
  fs::path place_;
  std::optional<ScopedMount> mount_;
};

TreeDump seen_inside() {
  TreeDump dump;
  dump.with_sockets = false;
  return dump;
}

void fill_image(const fs::path& image) {
  for (const char* name : {"etc", "usr/bin", "usr/lib/deep/er", "var/cache", "opt/replaced", "home/user"}) {
    fs::create_directories(image / name);
  }
  write_text_file(image / "etc/passwd", "root");
  write_text_file(image / "etc/hosts", "localhost");
  write_text_file(image / "usr/bin/tool", "#!tool");
  write_text_file(image / "usr/bin/ping", "#!ping");
  write_text_file(image / "usr/lib/deep/er/lib", "lib");
  write_text_file(image / "var/cache/a", "a");
  write_text_file(image / "var/cache/b", "b");
  write_text_file(image / "opt/replaced/old", "old");
  write_text_file(image / "home/user/becomes_socket", "a file of the image");
  fs::create_symlink("tool", image / "usr/bin/alias");
  fs::create_hard_link(image / "etc/hosts", image / "etc/hosts2");
}

// Typical changes to a sandbox's files.
void live_in(const fs::path& root) {
  write_text_file(root / "etc/passwd", "root\nuser");
  fs::remove(root / "etc/hosts");
  fs::remove_all(root / "usr/lib/deep");
  fs::remove_all(root / "opt/replaced");
  fs::create_directory(root / "opt/replaced");
  write_text_file(root / "opt/replaced/new", "new");
  fs::remove_all(root / "var/cache");
  write_text_file(root / "var/cache", "a file where a directory was");
  fs::remove(root / "usr/bin/alias");
  fs::create_directories(root / "usr/bin/alias/sub");
  ASSERT_EQ(::chmod((root / "usr/bin/tool").c_str(), 04755), 0);
  ASSERT_EQ(::chown((root / "usr/bin/ping").c_str(), 1000, 1000), 0);
  set_attribute(root / "usr/bin/ping", "security.capability", kFileCapability);
  fs::create_directories(root / "home/user/project");
  write_text_file(root / "home/user/project/main", std::string(3 << 20, 'm'));
  fs::create_hard_link(root / "home/user/project/main", root / "home/user/project/link");
  fs::create_symlink("/etc/passwd", root / "home/user/symlink");
  ASSERT_EQ(::mkfifo((root / "home/user/pipe").c_str(), 0640), 0);
  set_attribute(root / "home/user", "user.note", "mine");
  const UniqueFd sparse(::open((root / "home/user/sparse").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  ASSERT_EQ(::pwrite(sparse.get(), "end", 3, 64 << 20), 3);
  const timespec times[] = {{1, 2}, {3, 4}};
  ASSERT_EQ(::utimensat(AT_FDCWD, (root / "home/user/project").c_str(), times, 0), 0);
  // Sockets: in a new directory, and where the image has a file.
  fs::create_directories(root / "home/user/run");
  make_socket(root / "home/user/run/s");
  fs::remove(root / "home/user/becomes_socket");
  make_socket(root / "home/user/becomes_socket");
  make_socket(root / "s");
  ASSERT_EQ(::chmod(root.c_str(), 0711), 0);
  ASSERT_EQ(::chown(root.c_str(), 0, 50), 0);
}

TEST_F(Snapshots, ASandboxMadeFromASnapshotSeesExactlyWhatTheFirstOneSaw) {
  fill_image(dir_ / "image");
  const Overlay first(dir_ / "a", {dir_ / "image"});
  live_in(first.merged());
  const std::string id = new_uuid();
  const auto captured = capture(id, first.upper);
  ASSERT_TRUE(captured) << captured.error().message;
  EXPECT_EQ(frozen_, 1);
  EXPECT_EQ(thawed_, 1);
  EXPECT_GT(captured->bytes, 3u << 20);

  auto layers = store_->layers(id);
  ASSERT_TRUE(layers);
  layers->push_back(dir_ / "image");
  const Overlay second(dir_ / "b", *layers);
  EXPECT_EQ(difference(seen_inside().of(first.merged()), seen_inside().of(second.merged())), "");
  EXPECT_FALSE(fs::exists(fs::symlink_status(second.merged() / "home/user/becomes_socket")))
      << "the image's file must not come back";
  EXPECT_TRUE(fs::is_empty(second.merged() / "home/user/run")) << "no ghost of a whiteout either";

  // The layer on disk, entry by entry; sockets become whiteouts where the directory is merged, else nothing.
  TreeDump upper = seen_inside();
  upper.without = {"trusted.overlay.origin", "trusted.overlay.impure", "trusted.overlay.uuid", "trusted.overlay.nlink"};
  auto got = TreeDump().of(layers->front());
  for (const char* name : {"s", "home/user/becomes_socket"}) {
    EXPECT_TRUE(got[name].starts_with("20000 ")) << name << ": " << got[name];
    got.erase(name);
  }
  EXPECT_EQ(difference(upper.of(first.upper), got), "");
  struct stat st;
  ASSERT_EQ(::stat((layers->front() / "home/user/sparse").c_str(), &st), 0);
  EXPECT_LT(st.st_blocks * 512, 1 << 20);
}

TEST_F(Snapshots, SnapshotsOfSnapshotsStack) {
  fill_image(dir_ / "image");
  std::vector<std::string> below;
  std::vector<fs::path> layers{dir_ / "image"};
  for (int generation = 0; generation < 3; ++generation) {
    const fs::path place = dir_ / fmt::format("g{}", generation);
    const Overlay sandbox(place, layers);
    if (generation == 0) live_in(sandbox.merged());
    write_text_file(sandbox.merged() / fmt::format("generation{}", generation), "x");
    if (generation > 0) fs::remove(sandbox.merged() / fmt::format("generation{}", generation - 1));
    if (generation == 1) fs::remove_all(sandbox.merged() / "home");
    const std::string id = new_uuid();
    const auto captured = capture(id, sandbox.upper, below);
    ASSERT_TRUE(captured) << captured.error().message;
    below.push_back(id);
    layers = *store_->layers(id);
    ASSERT_EQ(layers.size(), below.size());
    EXPECT_EQ(layers.front().parent_path().filename(), id) << "top first";
    layers.push_back(dir_ / "image");
    const Overlay copy(dir_ / fmt::format("copy{}", generation), layers);
    EXPECT_EQ(difference(seen_inside().of(sandbox.merged()), seen_inside().of(copy.merged())), "");
    EXPECT_EQ(fs::exists(copy.merged() / "home"), generation == 0);
  }
}

TEST_F(Snapshots, TheSandboxIsThawedAfterAnyFailure) {
  fs::create_directories(dir_ / "upper/d");
  set_attribute(dir_ / "upper/d", "trusted.overlay.redirect", "/elsewhere");
  const auto failed = capture(new_uuid(), dir_ / "upper");
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Code::Unsupported);
  EXPECT_EQ(frozen_, 1);
  EXPECT_EQ(thawed_, 1);
  EXPECT_EQ(on_disk(), std::set<std::string>{});

  FreezeHooks cannot = hooks();
  cannot.freeze = [] { return Result<void>(fail(Code::Unavailable, "still running")); };
  const UniqueFd upper = open_directory(dir_ / "upper");
  const auto unfrozen = store_->capture(new_uuid(), {}, upper.get(), cannot);
  ASSERT_FALSE(unfrozen);
  EXPECT_EQ(unfrozen.error().code, Code::Unavailable);
  EXPECT_EQ(thawed_, 1) << "what was not frozen is not thawed";
  EXPECT_EQ(on_disk(), std::set<std::string>{});
}

TEST_F(Snapshots, RecordsSurviveARestart) {
  const std::string id = new_uuid();
  fs::create_directories(dir_ / "upper");
  const image::Digest layer = image::Digest::of("layer");
  const UniqueFd upper = open_directory(dir_ / "upper");
  CaptureTimes times;
  const SnapshotBase base{"docker.io/library/debian:12", R"({"config":{"Env":["A=\"ü\""]}})", {layer}, {}};
  const auto captured = store_->capture(id, base, upper.get(), hooks(), &times);
  ASSERT_TRUE(captured) << captured.error().message;
  EXPECT_GE(times.total_ms, times.frozen_ms);
  reopen();
  const auto found = store_->get(id);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->base.image, base.image);
  EXPECT_EQ(found->base.config, base.config);
  EXPECT_EQ(found->base.diff_ids, base.diff_ids);
  EXPECT_EQ(found->created, captured->created);
  EXPECT_EQ(found->bytes, captured->bytes);
  EXPECT_EQ(store_->image_layers(), std::set<image::Digest>{layer});
  EXPECT_EQ(ids(), Ids{id});
}

TEST_F(Snapshots, IdsAreTakenOnceAndMustBeIds) {
  const std::string id = simple("x");
  fs::create_directories(dir_ / "upper");
  EXPECT_EQ(capture(id, dir_ / "upper").error().code, Code::Conflict);
  for (const char* bad : {"", "..", "../x", ".tmp", "x"}) {
    EXPECT_EQ(capture(bad, dir_ / "upper").error().code, Code::InvalidRequest) << bad;
  }
  EXPECT_EQ(capture(new_uuid(), dir_ / "upper", {new_uuid()}).error().reason, "SNAPSHOT::NOT_FOUND");
  EXPECT_EQ(store_->get(new_uuid()).error().reason, "SNAPSHOT::NOT_FOUND");
  EXPECT_EQ(store_->layers(new_uuid()).error().code, Code::NotFound);
  EXPECT_EQ(ids(), Ids{id});
}

TEST_F(Snapshots, ARemovedSnapshotLivesOnBelowThoseThatNeedIt) {
  const std::string first = simple("first");
  const std::string second = simple("second", {first});
  const std::string third = simple("third", {first, second});
  EXPECT_EQ(store_->remove(first, 1).error().reason, "SNAPSHOT::DELETE_CONFLICT");
  const std::uint64_t bytes = store_->bytes();
  for (const std::string& id : {first, second}) {
    ASSERT_TRUE(store_->remove(id, 0));
    EXPECT_EQ(store_->get(id).error().code, Code::NotFound);
    EXPECT_EQ(store_->layers(id).error().code, Code::NotFound);
    EXPECT_EQ(store_->remove(id, 0).error().code, Code::NotFound);
  }
  EXPECT_EQ(store_->bytes(), bytes);
  reopen();
  EXPECT_EQ(ids(), Ids{third});
  const auto layers = store_->layers(third);
  ASSERT_TRUE(layers) << layers.error().message;
  ASSERT_EQ(layers->size(), 3u);
  for (const fs::path& layer : *layers) EXPECT_TRUE(fs::exists(layer / "file")) << layer;
  // A sandbox made from the third can be captured, though two of its layers are hidden.
  const std::string fourth = simple("fourth", {first, second, third});
  ASSERT_TRUE(store_->remove(third, 0));
  EXPECT_EQ(on_disk().size(), 4u);
  ASSERT_TRUE(store_->remove(fourth, 0));
  EXPECT_EQ(on_disk(), std::set<std::string>{});
  EXPECT_EQ(store_->bytes(), 0u);
}

TEST_F(Snapshots, AllTogetherStayBelowTheirLimit) {
  const std::string megabyte(1 << 20, 'x');
  const fs::path upper = dir_ / "upper";
  fs::create_directories(upper);
  write_text_file(upper / "file", megabyte);
  reopen({.max_bytes = 5 << 19});
  const std::string first = simple(megabyte), second = simple(megabyte);
  const auto third = capture(new_uuid(), upper);
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, Code::Exhausted);
  EXPECT_EQ(third.error().reason, kSnapshotLimit);
  EXPECT_EQ(on_disk(), (std::set{first, second}));
  EXPECT_EQ(frozen_, thawed_);
  // The limit counts snapshots of an earlier process, and a removal makes room.
  reopen({.max_bytes = 5 << 19});
  EXPECT_FALSE(capture(new_uuid(), upper));
  ASSERT_TRUE(store_->remove(first, 0));
  EXPECT_TRUE(capture(new_uuid(), upper));
  reopen({.max_entries = 2});
  EXPECT_EQ(capture(new_uuid(), upper).error().reason, kSnapshotLimit);
  reopen({.reserve = {.bytes = std::int64_t{1} << 60, .places = {{dir_.path().string()}}}});
  EXPECT_EQ(capture(new_uuid(), upper).error().reason, "DISK_LOW");
}

TEST_F(Snapshots, ARemovalThatWaitsForTheDiskBlocksNoReader) {
  const std::string first = simple("first");
  const std::string second = simple("second", {first});
  std::vector<std::string> steps;
  std::vector<std::future<std::size_t>> looks;
  SnapshotStoreOptions options;
  options.after_step = [&](std::string_view step) {
    steps.emplace_back(step);
    looks.push_back(std::async(std::launch::async, [this] { return store_->list().size(); }));
    EXPECT_EQ(looks.back().wait_for(std::chrono::seconds(30)), std::future_status::ready) << step;
  };
  reopen(std::move(options));
  ASSERT_TRUE(store_->remove(first, 0));
  ASSERT_TRUE(store_->remove(second, 0));
  EXPECT_EQ(steps, (std::vector<std::string>{"hidden", "withdrawn", "collected"}));
  EXPECT_EQ(on_disk(), std::set<std::string>{});
}

TEST_F(Snapshots, ARemovalThatFailsLeavesTheSnapshotToBeSeen) {
  const std::string first = simple("first");
  const std::string second = simple("second", {first});
  fs::create_directory(dir_ / "snapshots" / first / "removed");  // in the way of the file of that name
  EXPECT_FALSE(store_->remove(first, 0));
  EXPECT_TRUE(store_->get(first));
  fs::remove(dir_ / "snapshots" / first / "removed");
  EXPECT_TRUE(store_->remove(first, 0));
  EXPECT_EQ(ids(), Ids{second});
}

TEST_F(Snapshots, ASnapshotBeingCapturedFromCannotBeRemoved) {
  const std::string first = simple("first");
  fs::create_directories(dir_ / "upper");
  const UniqueFd upper = open_directory(dir_ / "upper");
  FreezeHooks during = hooks();
  Result<void> removed;
  during.freeze = [&]() -> Result<void> {
    removed = store_->remove(first, 0);
    return {};
  };
  ASSERT_TRUE(store_->capture(new_uuid(), {"i", "{}", {}, {first}}, upper.get(), during));
  ASSERT_FALSE(removed);
  EXPECT_EQ(removed.error().reason, "SNAPSHOT::DELETE_CONFLICT");
}

TEST_F(Snapshots, ARecordThatCannotBeReadIsLeftAlone) {
  const std::string good = simple("good");
  const std::string bad = simple("bad");
  write_text_file(dir_ / "snapshots" / bad / "snapshot.json", "{\"id\":");
  fs::create_directories(dir_ / "snapshots/lost+found");
  reopen();
  EXPECT_EQ(ids(), Ids{good});
  EXPECT_TRUE(fs::exists(dir_ / "snapshots" / bad / "root/file"));
}

// --- crashes -----------------------------------------------------------------------------------------------------

class SnapshotCrash : public Snapshots {
 protected:
  // Runs `work` in a child that is killed right after `step`.
  void crash_after(const std::string& step, const std::function<void(SnapshotStore&)>& work) {
    const pid_t child = ::fork();
    if (child == 0) {
      SnapshotStoreOptions options;
      options.after_step = [&](std::string_view now) {
        if (now == step) ::raise(SIGKILL);
      };
      auto store = SnapshotStore::open(dir_ / "snapshots", std::move(options));
      if (store) work(**store);
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << step << " was never reached";
    reopen();
  }
};

TEST_F(SnapshotCrash, CaptureLeavesAWholeSnapshotOrNothing) {
  fs::create_directories(dir_ / "upper/d");
  for (int n = 0; n < 50; ++n) write_text_file(dir_ / fmt::format("upper/d/f{}", n), std::string(5000, 'x'));
  for (const char* step : {"staged", "frozen", "copied", "recorded", "synced", "published"}) {
    const std::string id = new_uuid();
    crash_after(step, [&](SnapshotStore& store) {
      const UniqueFd upper = open_directory(dir_ / "upper");
      static_cast<void>(store.capture(id, {"i", "{}", {}, {}}, upper.get(), hooks()));
    });
    const bool whole = std::string_view(step) == "published";
    EXPECT_EQ(ids(), whole ? Ids{id} : Ids{}) << step;
    EXPECT_EQ(on_disk(), whole ? std::set{id} : std::set<std::string>{}) << step;
    if (!whole) continue;
    EXPECT_EQ(difference(TreeDump().of(dir_ / "upper"), TreeDump().of(store_->layers(id)->front())), "");
  }
}

TEST_F(SnapshotCrash, RemovalIsFinishedByTheNextStart) {
  const std::string first = simple("first");
  const std::string second = simple("second", {first});
  crash_after("hidden", [&](SnapshotStore& store) { static_cast<void>(store.remove(first, 0)); });
  EXPECT_EQ(ids(), Ids{second});
  EXPECT_EQ(on_disk(), (std::set{first, second}));
  crash_after("withdrawn", [&](SnapshotStore& store) { static_cast<void>(store.remove(second, 0)); });
  EXPECT_EQ(ids(), Ids{});
  EXPECT_EQ(on_disk(), std::set<std::string>{});
}

TEST_F(SnapshotCrash, RemovalOfAnUnusedSnapshotEndsWithTheRename) {
  const std::string only = simple("only");
  crash_after("collected", [&](SnapshotStore& store) { static_cast<void>(store.remove(only, 0)); });
  EXPECT_EQ(on_disk(), std::set<std::string>{});
}

// --- export ------------------------------------------------------------------------------------------------------

TEST_F(Snapshots, ExportHasTheImagesLayersAndTheSnapshotsOnTop) {
  fill_image(dir_ / "image");
  const Overlay sandbox(dir_ / "a", {dir_ / "image"});
  fs::remove(sandbox.merged() / "etc/passwd");
  write_text_file(sandbox.merged() / "made", "made");
  const std::string first = new_uuid();
  ASSERT_TRUE(capture(first, sandbox.upper));
  const std::string second = simple("second", {first});
  std::uint64_t bytes = 0;
  std::string archive;
  const auto exported = export_snapshot(*store_, second, {dir_ / "image"}, {}, [&](std::string_view part) {
    bytes += part.size();
    archive += part;
    return Result<void>();
  });
  ASSERT_TRUE(exported) << exported.error().message;
  EXPECT_EQ(exported->diff_ids.size(), 3u);
  EXPECT_EQ(exported->bytes, bytes);
  EXPECT_NE(archive.find("etc/.wh.passwd"), std::string::npos);
  EXPECT_EQ(export_snapshot(*store_, new_uuid(), {}, {}, [](std::string_view) { return Result<void>(); }).error().code,
            Code::NotFound);
}

}  // namespace
}  // namespace osb::sandboxd
