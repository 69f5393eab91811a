#include "kernel/copy_tree.h"

#include <sys/sysmacros.h>

#include "kernel/copy_tree_attributes.h"
#include "kernel/copy_tree_fixture.h"
#include "kernel/reflink.h"
#include "support/temp_dir.h"
#include "sys/remove_tree.h"

namespace osb::kernel {
namespace {

namespace fs = std::filesystem;
using namespace osb::testing;

class CopyTree : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: owners, device nodes, trusted attributes";
    fs::create_directory(source());
    fs::create_directory(copy());
  }
  fs::path source() const { return dir_ / "source"; }
  fs::path copy() const { return dir_ / "copy"; }
  Result<CopiedTree> run(const CopyTreeOptions& options = {}) {
    const UniqueFd from = open_directory(source());
    const UniqueFd to = open_directory(copy());
    return copy_tree(from.get(), to.get(), options);
  }

  TempDir dir_;
};

void set_old_times(const fs::path& path) {
  const timespec times[] = {{1'000'000'001, 123'456'789}, {1'234'567'890, 987'654'321}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW), 0) << path;
}

TEST_F(CopyTree, KeepsAllThatAnEntryHas) {
  fs::create_directories(source() / "d/e");
  write_text_file(source() / "d/plain", "hello");
  write_text_file(source() / "d/empty", "");
  write_text_file(source() / "d/large", std::string(9 << 20, 'x') + "end");
  write_text_file(source() / "d/setuid", "#!");
  ASSERT_EQ(::chown((source() / "d/setuid").c_str(), 1000, 65535), 0);
  ASSERT_EQ(::chmod((source() / "d/setuid").c_str(), 06751), 0);
  set_attribute(source() / "d/setuid", "security.capability", kFileCapability);
  set_attribute(source() / "d/plain", "user.note", std::string("some\0bytes", 10));
  set_attribute(source() / "d/plain", "trusted.own", "t");
  set_attribute(source() / "d", "user.on_directory", std::string(2000, 'v'));
  fs::create_symlink("../nowhere", source() / "d/link");
  set_attribute(source() / "d/link", "trusted.on_link", "l");
  ASSERT_EQ(::lchown((source() / "d/link").c_str(), 7, 8), 0);
  ASSERT_EQ(::mkfifo((source() / "d/pipe").c_str(), 0620), 0);
  ASSERT_EQ(::mknod((source() / "d/gone").c_str(), S_IFCHR, 0), 0);
  ASSERT_EQ(::chmod((source() / "d/e").c_str(), 03777), 0);
  write_text_file(source() / "name\nwith \xff bytes", "x");
  for (const char* name : {"d/plain", "d/link", "d/pipe", "d/gone", "d/setuid", "d/e", "d", "."}) {
    set_old_times(source() / name);
  }
  ASSERT_EQ(::chmod(source().c_str(), 0751), 0);
  ASSERT_EQ(::chown(source().c_str(), 11, 12), 0);

  const auto copied = run();
  ASSERT_TRUE(copied) << copied.error().message;
  EXPECT_EQ(copied->entries, 10u);
  EXPECT_GT(copied->bytes, 9u << 20);
  EXPECT_LT(copied->bytes, 10u << 20);
  EXPECT_EQ(difference(TreeDump().of(source()), TreeDump().of(copy())), "");
}

TEST_F(CopyTree, ATreeAboveItsLimitsIsRefused) {
  fs::create_directory(source() / "d");
  write_text_file(source() / "d/large", std::string(1 << 20, 'x'));
  write_text_file(source() / "small", "x");
  EXPECT_EQ(run({.max_bytes = 1 << 20}).error().code, Code::Exhausted);
  fs::remove_all(copy());
  fs::create_directory(copy());
  EXPECT_EQ(run({.max_entries = 2}).error().code, Code::Exhausted);
  fs::remove_all(copy());
  fs::create_directory(copy());
  EXPECT_TRUE(run({.max_bytes = 2 << 20, .max_entries = 3}));
}

TEST_F(CopyTree, KeepsAccessControlLists) {
  write_text_file(source() / "f", "x");
  fs::create_directory(source() / "d");
  // setfacl -m u:1000:r: version 2, then entries of tag, permissions, id.
  const auto entry = [](std::uint16_t tag, std::uint16_t perm, std::uint32_t id) {
    std::string out(8, '\0');
    std::memcpy(out.data(), &tag, 2);
    std::memcpy(out.data() + 2, &perm, 2);
    std::memcpy(out.data() + 4, &id, 4);
    return out;
  };
  const std::uint32_t none = 0xffffffff;
  const std::string acl = std::string("\x02\0\0\0", 4) + entry(1, 6, none) + entry(2, 4, 1000) + entry(4, 0, none) +
                          entry(16, 4, none) + entry(32, 0, none);
  set_attribute(source() / "f", "system.posix_acl_access", acl);
  set_attribute(source() / "d", "system.posix_acl_default", acl);
  write_text_file(source() / "d/inherits", "x");
  const auto copied = run();
  ASSERT_TRUE(copied) << copied.error().message;
  const auto want = TreeDump().of(source());
  EXPECT_NE(want.at("d/inherits").find("posix_acl_access"), std::string::npos);
  EXPECT_EQ(difference(want, TreeDump().of(copy())), "");
}

TEST_F(CopyTree, KeepsHardLinksAlsoAcrossDirectories) {
  for (int d = 0; d < 8; ++d) fs::create_directories(source() / fmt::format("d{}", d));
  for (int f = 0; f < 20; ++f) {
    write_text_file(source() / fmt::format("d0/f{}", f), fmt::format("contents {}", f));
    for (int d = 1; d < 8; ++d) {
      fs::create_hard_link(source() / fmt::format("d0/f{}", f), source() / fmt::format("d{}/g{}", d, f));
    }
  }
  fs::create_symlink("target", source() / "l");
  ASSERT_EQ(::linkat(AT_FDCWD, (source() / "l").c_str(), AT_FDCWD, (source() / "d1/l").c_str(), 0), 0);
  // A link whose other name lies outside is a file of its own in the copy.
  write_text_file(dir_ / "outside", "out");
  fs::create_hard_link(dir_ / "outside", source() / "in");
  for (unsigned threads : {1u, 4u}) {
    fs::remove_all(copy());
    fs::create_directory(copy());
    const auto copied = run({.threads = threads});
    ASSERT_TRUE(copied) << copied.error().message;
    auto want = TreeDump().of(source());
    auto got = TreeDump().of(copy());
    EXPECT_NE(want.at("in").find("n=2"), std::string::npos);
    EXPECT_NE(got.at("in").find("n=1"), std::string::npos);
    want.erase("in");
    got.erase("in");
    EXPECT_EQ(difference(want, got), "");
  }
}

TEST_F(CopyTree, HolesStayHoles) {
  const UniqueFd fd(::open((source() / "sparse").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  ASSERT_EQ(::pwrite(fd.get(), "start", 5, 0), 5);
  ASSERT_EQ(::pwrite(fd.get(), "middle", 6, 100 << 20), 6);
  ASSERT_EQ(::ftruncate(fd.get(), off_t{1} << 40), 0);
  write_text_file(source() / "only_hole", "");
  fs::resize_file(source() / "only_hole", 5 << 20);
  ASSERT_EQ(::fsync(fd.get()), 0);
  const auto copied = run();
  ASSERT_TRUE(copied) << copied.error().message;
  struct stat st;
  ASSERT_EQ(::stat((copy() / "sparse").c_str(), &st), 0);
  EXPECT_EQ(st.st_size, off_t{1} << 40);
  EXPECT_LE(st.st_blocks * 512, 64 << 10);
  char text[6];
  const UniqueFd out(::open((copy() / "sparse").c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::pread(out.get(), text, 6, 100 << 20), 6);
  EXPECT_EQ(std::string(text, 6), "middle");
  EXPECT_EQ(fs::file_size(copy() / "only_hole"), 5u << 20);
}

TEST_F(CopyTree, LeavesOutSocketsAndDevices) {
  make_socket(source() / "s");
  ASSERT_EQ(::mknod((source() / "null").c_str(), S_IFCHR | 0666, makedev(1, 3)), 0);
  ASSERT_EQ(::mknod((source() / "disk").c_str(), S_IFBLK | 0600, makedev(7, 0)), 0);
  write_text_file(source() / "f", "x");
  const auto copied = run();
  ASSERT_TRUE(copied) << copied.error().message;
  EXPECT_EQ(copied->skipped, 3u);
  EXPECT_EQ(copied->entries, 1u);
  EXPECT_EQ(std::distance(fs::directory_iterator(copy()), {}), 1);
}

TEST_F(CopyTree, TranslatesOverlayAttributes) {
  struct {
    const char* name;
    OverlayAttribute want;
  } rows[] = {
      {"user.x", OverlayAttribute::Keep},
      {"user.overlay.opaque", OverlayAttribute::Keep},
      {"trusted.overlay.opaque", OverlayAttribute::Keep},
      {"trusted.overlay.whiteout", OverlayAttribute::Keep},
      {"trusted.overlay.overlay.origin", OverlayAttribute::Keep},
      {"trusted.overlay.origin", OverlayAttribute::Drop},
      {"trusted.overlay.impure", OverlayAttribute::Drop},
      {"trusted.overlay.nlink", OverlayAttribute::Drop},
      {"trusted.overlay.redirect", OverlayAttribute::Refuse},
      {"trusted.overlay.metacopy", OverlayAttribute::Refuse},
      {"trusted.overlay.of_tomorrow", OverlayAttribute::Refuse},
  };
  for (const auto& row : rows) EXPECT_EQ(overlay_attribute(row.name), row.want) << row.name;

  fs::create_directory(source() / "d");
  set_attribute(source() / "d", "trusted.overlay.opaque", "y");
  set_attribute(source() / "d", "trusted.overlay.impure", "y");
  const auto copied = run({.overlay_upper = true});
  ASSERT_TRUE(copied) << copied.error().message;
  TreeDump dump;
  dump.without = {"trusted.overlay.impure"};
  EXPECT_EQ(difference(dump.of(source()), TreeDump().of(copy())), "");
}

TEST_F(CopyTree, RefusesAnUpperThatIsNotComplete) {
  for (const char* name : {"trusted.overlay.redirect", "trusted.overlay.metacopy"}) {
    fs::create_directory(source() / "d");
    set_attribute(source() / "d", name, "/elsewhere");
    const auto copied = run({.overlay_upper = true});
    ASSERT_FALSE(copied) << name;
    EXPECT_EQ(copied.error().code, Code::Unsupported);
    EXPECT_NE(copied.error().message.find("d: attribute " + std::string(name)), std::string::npos)
        << copied.error().message;
    fs::remove_all(source() / "d");
    fs::remove_all(copy() / "d");
  }
}

TEST_F(CopyTree, GoesAsDeepAsPathsGoAndSaysSoBeyond) {
  const std::string name(200, 'n');
  fs::path path = source();
  for (int depth = 0; depth < 18; ++depth) fs::create_directory(path /= name);
  write_text_file(path / "deepest", "x");
  auto copied = run();
  ASSERT_TRUE(copied) << copied.error().message;
  EXPECT_EQ(difference(TreeDump().of(source()), TreeDump().of(copy())), "");

  UniqueFd at = open_directory(path);
  for (int depth = 0; depth < 4; ++depth) {
    ASSERT_EQ(::mkdirat(at.get(), name.c_str(), 0700), 0);
    at.reset(::openat(at.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
  ASSERT_TRUE(sys::remove_tree(open_directory(dir_.path()).get(), "copy"));
  fs::create_directory(copy());
  copied = run();
  ASSERT_FALSE(copied);
  EXPECT_EQ(copied.error().code, Code::Unsupported);
  ASSERT_TRUE(sys::remove_tree(open_directory(dir_.path()).get(), "source"));
}

TEST_F(CopyTree, DoesNotFollowLinksToDirectories) {
  fs::create_directory(dir_ / "secret");
  write_text_file(dir_ / "secret/key", "k");
  fs::create_directory_symlink(dir_ / "secret", source() / "d");
  const auto copied = run();
  ASSERT_TRUE(copied) << copied.error().message;
  EXPECT_TRUE(fs::is_symlink(copy() / "d"));
  EXPECT_EQ(copied->entries, 1u);
}

TEST_F(CopyTree, AFileSystemWithReflinksSharesTheBlocks) {
  use_private_mounts();
  const ScopedMount memory("none", dir_ / "memory", "tmpfs", 0, "size=900m");
  for (const char* type : {"btrfs", "xfs"}) {
    SCOPED_TRACE(type);
    const std::string mkfs = fmt::format("mkfs.{}", type);
    if (std::system(fmt::format("command -v {} >/dev/null", mkfs).c_str()) != 0) {
      FAIL() << mkfs << " is not installed: run scripts/setup";
    }
    const fs::path image = memory.path() / type;
    write_text_file(image, "");
    fs::resize_file(image, 400 << 20);
    ASSERT_EQ(std::system(fmt::format("{} -q {} >/dev/null", mkfs, image.string()).c_str()), 0);
    const fs::path mounted = dir_ / "mounted";
    fs::create_directories(mounted);
    if (std::system(
            fmt::format("mount -t {} -o loop {} {} 2>/dev/null", type, image.string(), mounted.string()).c_str()) !=
        0) {
      GTEST_SKIP() << "this kernel mounts no " << type << " from a loop device";
    }
    const UniqueFd root = open_directory(mounted);
    EXPECT_TRUE(can_clone_files(root.get()).value_or(false));
    fs::create_directories(mounted / "from/d");
    fs::create_directories(mounted / "to");
    write_text_file(mounted / "from/d/large", std::string(30 << 20, 'x'));
    write_text_file(mounted / "from/d/small", "small");
    write_text_file(mounted / "from/d/empty", "");
    {
      const UniqueFd from = open_directory(mounted / "from");
      const UniqueFd to = open_directory(mounted / "to");
      const auto copied = copy_tree(from.get(), to.get());
      ASSERT_TRUE(copied) << copied.error().message;
      EXPECT_EQ(copied->cloned, 2u);
    }
    EXPECT_EQ(difference(TreeDump().of(mounted / "from"), TreeDump().of(mounted / "to")), "");
    // Either changes alone.
    write_text_file(mounted / "to/d/small", "other");
    std::ifstream original(mounted / "from/d/small");
    std::string text;
    original >> text;
    EXPECT_EQ(text, "small");
    original.close();
    ASSERT_EQ(::umount2(mounted.c_str(), MNT_DETACH), 0);
  }
}

TEST_F(CopyTree, WithoutReflinksTheAnswerIsNoAndNotAnError) {
  use_private_mounts();
  const ScopedMount memory("none", dir_ / "memory", "tmpfs", 0, "size=10m");
  const auto can = can_clone_files(open_directory(memory.path()).get());
  ASSERT_TRUE(can) << can.error().message;
  EXPECT_FALSE(*can);
}

TEST(RemoveTree, TakesTreesDeeperThanAnyPath) {
  TempDir dir;
  const UniqueFd root = open_directory(dir.path());
  const std::string name(100, 'n');
  ASSERT_EQ(::mkdirat(root.get(), "tree", 0700), 0);
  UniqueFd at = open_directory(dir / "tree");
  for (int depth = 0; depth < 100; ++depth) {
    ASSERT_EQ(::mkdirat(at.get(), name.c_str(), 0700), 0);
    ASSERT_EQ(::mkdirat(at.get(), "sibling", 0700), 0);
    ASSERT_EQ(::symlinkat("/", at.get(), "link"), 0);
    at.reset(::openat(at.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    ASSERT_TRUE(at);
  }
  at.reset();
  const auto removed = sys::remove_tree(root.get(), "tree");
  ASSERT_TRUE(removed) << removed.error().message;
  EXPECT_TRUE(fs::is_empty(dir.path()));
  EXPECT_TRUE(sys::remove_tree(root.get(), "tree")) << "what is not there is removed";
}

TEST(RemoveTree, RemovesLinksNotWhatTheyLeadTo) {
  TempDir dir;
  fs::create_directories(dir / "keep");
  write_text_file(dir / "keep/file", "x");
  fs::create_directories(dir / "tree/d");
  fs::create_directory_symlink(dir / "keep", dir / "tree/d/link");
  fs::create_directory_symlink(dir / "keep", dir / "alone");
  const UniqueFd root = open_directory(dir.path());
  ASSERT_TRUE(sys::remove_tree(root.get(), "tree"));
  ASSERT_TRUE(sys::remove_tree(root.get(), "alone"));
  EXPECT_TRUE(fs::exists(dir / "keep/file"));
  EXPECT_FALSE(fs::exists(dir / "tree"));
}

}  // namespace
}  // namespace osb::kernel
