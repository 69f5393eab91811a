#include "image/layer_unpacker.h"

#include <filesystem>
#include <fstream>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "image/layer_fixture.h"
#include "support/temp_dir.h"
#include "sys/syscall.h"

namespace osb::image {
namespace {

using namespace image::testing;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

class LayerUnpacker : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: layers keep owners, capabilities and whiteouts";
    fs::create_directory(root_);
  }

  Result<UnpackedLayer> unpack(const std::string& bytes, const UnpackOptions& options = {},
                               std::size_t piece = 1 << 20) {
    fs::remove_all(root_);
    fs::create_directory(root_);
    auto fd = sys::open_at(AT_FDCWD, root_.string(), O_RDONLY | O_DIRECTORY);
    return unpack_layer(from_memory(bytes, piece), fd->get(), options);
  }
  Result<UnpackedLayer> unpack(const Tar& tar, const UnpackOptions& options = {}) {
    return unpack(tar.bytes(), options);
  }

  void refused(const Tar& tar, const std::string& why, const UnpackOptions& options = {},
               Code code = Code::InvalidRequest) {
    const auto got = unpack(tar, options);
    ASSERT_FALSE(got) << why;
    EXPECT_EQ(got.error().code, code) << got.error().message;
    EXPECT_THAT(got.error().message, HasSubstr(why));
  }

  struct stat stat_of(const std::string& name) {
    struct stat st{};
    EXPECT_EQ(::lstat((root_ / name).c_str(), &st), 0) << name;
    return st;
  }
  std::string text(const std::string& name) {
    std::ifstream in(root_ / name);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::string attribute(const std::string& name, const char* key) {
    char value[256];
    const ssize_t size = ::lgetxattr((root_ / name).c_str(), key, value, sizeof value);
    return size < 0 ? "none" : std::string(value, static_cast<std::size_t>(size));
  }
  bool whiteout(const std::string& name) {
    const struct stat st = stat_of(name);
    return S_ISCHR(st.st_mode) && st.st_rdev == 0;
  }

  osb::testing::TempDir dir_;
  const fs::path root_ = dir_ / "root";
};

TEST_F(LayerUnpacker, KeepsOwnersModesTimesAndLinks) {
  Tar tar;
  tar.directory("bin", 0755);
  tar.add({.name = "bin/su", .data = "#!", .mode = 04755, .uid = 0, .gid = 42});
  tar.add({.name = "tmp", .type = '5', .mode = 01777});
  tar.add({.name = "home/me/x",
           .data = "hello",
           .mode = 0600,
           .uid = 1000,
           .gid = 65535,
           .pax = {{"mtime", "1234567890.123456789"}}});
  tar.link("home/me/y", "home/me/x");
  tar.add({.name = "sh", .type = '2', .uid = 7, .gid = 8, .link = "/bin/su"});
  tar.add({.name = "pipe", .type = '6', .mode = 0620});
  const auto got = unpack(tar);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->entries, 7u);
  EXPECT_EQ(got->diff_id, Digest::of(tar.bytes()));
  EXPECT_EQ(got->digest, got->diff_id);
  EXPECT_EQ(stat_of("bin/su").st_mode, S_IFREG | 04755u);
  EXPECT_EQ(stat_of("bin/su").st_gid, 42u);
  EXPECT_EQ(stat_of("bin").st_mtime, 1'000'000'000);  // though an entry came after it
  EXPECT_EQ(stat_of("tmp").st_mode, S_IFDIR | 01777u);
  EXPECT_EQ(stat_of("home").st_mode, S_IFDIR | 0755u);  // not in the layer
  const struct stat x = stat_of("home/me/x");
  EXPECT_EQ(x.st_uid, 1000u);
  EXPECT_EQ(x.st_gid, 65535u);
  EXPECT_EQ(x.st_nlink, 2u);
  EXPECT_EQ(x.st_mtim.tv_sec, 1234567890);
  EXPECT_EQ(x.st_mtim.tv_nsec, 123456789);
  EXPECT_EQ(stat_of("home/me/y").st_ino, x.st_ino);
  EXPECT_EQ(text("home/me/y"), "hello");
  EXPECT_EQ(fs::read_symlink(root_ / "sh"), "/bin/su");
  EXPECT_EQ(stat_of("sh").st_gid, 8u);
  EXPECT_EQ(stat_of("sh").st_mtime, 1'000'000'000);
  EXPECT_EQ(stat_of("pipe").st_mode, S_IFIFO | 0620u);
}

TEST_F(LayerUnpacker, NamesOfAnyLengthAndAlphabetArrive) {
  const std::string longer = "d/" + std::string(200, 'n') + "/" + std::string(200, 'm');
  Tar tar;
  tar.add({.name = "x", .data = "1", .pax = {{"path", longer}}});
  tar.add({.name = "x", .data = "2", .pax = {{"path", "\xc3\xa4/\xe6\xbc\xa2"}}});
  tar.file("raw\xff\xfe", "3");
  tar.add({.name = "l", .type = '2', .link = "x", .pax = {{"linkpath", "\xc3\xa4"}}});
  const auto got = unpack(tar);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(text(longer), "1");
  EXPECT_EQ(text("\xc3\xa4/\xe6\xbc\xa2"), "2");
  EXPECT_EQ(text("raw\xff\xfe"), "3");
  EXPECT_EQ(fs::read_symlink(root_ / "l"), "\xc3\xa4");
}

TEST_F(LayerUnpacker, CapabilitiesAndUserAttributesAreKeptOthersAreNot) {
  // VFS_CAP_REVISION_2, effective, CAP_NET_RAW
  const std::string capability("\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", 20);
  Tar tar;
  tar.add({.name = "ping",
           .data = "x",
           .mode = 0755,
           .uid = 5,
           .pax = {{"SCHILY.xattr.security.capability", capability},
                   {"SCHILY.xattr.user.note", "hi"},
                   {"SCHILY.xattr.user.overlay.redirect", "/etc"},
                   {"SCHILY.xattr.trusted.overlay.redirect", "/etc"},
                   {"SCHILY.xattr.security.selinux", "system_u"}}});
  const auto got = unpack(tar);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(attribute("ping", "security.capability"), capability);
  EXPECT_EQ(attribute("ping", "user.note"), "hi");
  EXPECT_EQ(attribute("ping", "user.overlay.redirect"), "none");
  EXPECT_EQ(attribute("ping", "trusted.overlay.redirect"), "none");
  EXPECT_EQ(attribute("ping", "security.selinux"), "none");
  Tar broken;
  broken.add({.name = "ping", .data = "x", .pax = {{"SCHILY.xattr.security.capability", "short"}}});
  refused(broken, "invalid security.capability");
}

TEST_F(LayerUnpacker, WhiteoutsAndOpaqueDirectoriesSpeakOverlay) {
  Tar tar;
  tar.file("etc/.wh.passwd", "").file("var/.wh..wh..opq", "").file("var/new", "x").file(".wh..wh.plnk", "");
  ASSERT_TRUE(unpack(tar));
  EXPECT_TRUE(whiteout("etc/passwd"));
  EXPECT_EQ(attribute("var", "trusted.overlay.opaque"), "y");
  EXPECT_EQ(attribute("etc", "trusted.overlay.opaque"), "none");
  EXPECT_FALSE(fs::exists(root_ / ".wh..wh.plnk"));
  ASSERT_TRUE(unpack(tar, {.digest = {}, .diff_id = {}, .opaque = UnpackOptions::Opaque::User}));
  EXPECT_EQ(attribute("var", "user.overlay.opaque"), "y");
  EXPECT_EQ(attribute("var", "trusted.overlay.opaque"), "none");
  for (const char* name : {"a/.wh.", "a/.wh..", "a/.wh..."}) refused(Tar().file(name, ""), "hides no name");
}

TEST_F(LayerUnpacker, AWhiteoutNextToItsOwnReplacementHidesOnlyTheLayersBelow) {
  Tar after, before;
  after.directory("d").file("d/x", "new").file("f", "new").file(".wh.d", "").file(".wh.f", "");
  before.file(".wh.d", "").file(".wh.f", "").directory("d").file("d/x", "new").file("f", "new");
  for (const Tar& tar : {after, before}) {
    const auto got = unpack(tar);
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(text("d/x"), "new");
    EXPECT_EQ(text("f"), "new");
    EXPECT_EQ(attribute("d", "trusted.overlay.opaque"), "y");
  }
}

TEST_F(LayerUnpacker, TheKernelSeesTheStackedLayersAsMeant) {
  Tar upper;
  upper.file(".wh.gone", "").file("d/.wh..wh..opq", "").file("d/new", "n");
  ASSERT_TRUE(unpack(upper));
  const fs::path lower = dir_ / "lower", merged = dir_ / "merged";
  fs::create_directories(lower / "d");
  fs::create_directory(merged);
  for (const char* name : {"gone", "kept", "d/old"}) std::ofstream(lower / name) << "low";
  const std::string options = "lowerdir=" + root_.string() + ":" + lower.string();
  if (::mount("overlay", merged.c_str(), "overlay", MS_RDONLY, options.c_str()) < 0) {
    GTEST_SKIP() << "cannot mount overlayfs here: " << std::generic_category().message(errno);
  }
  const bool gone = !fs::exists(merged / "gone"), kept = fs::exists(merged / "kept");
  const bool old = fs::exists(merged / "d/old"), fresh = fs::exists(merged / "d/new");
  ASSERT_EQ(::umount(merged.c_str()), 0);
  EXPECT_TRUE(gone);
  EXPECT_TRUE(kept);
  EXPECT_FALSE(old);
  EXPECT_TRUE(fresh);
}

TEST_F(LayerUnpacker, NothingLeavesTheRoot) {
  const fs::path outside = dir_ / "outside";
  fs::create_directory(outside);
  std::ofstream(outside / "victim") << "safe";
  refused(Tar().file("../outside/x", "bad"), "'..' is not allowed");
  refused(Tar().file("a/../../outside/x", "bad"), "'..' is not allowed");
  refused(Tar().link("l", "../outside/victim"), "'..' is not allowed");
  refused(Tar().file("a/.wh.x/../../y", ""), "'..' is not allowed");
  refused(Tar().symlink("s", outside).file("s/x", "bad"), "symbolic link");
  refused(Tar().symlink("s", "../outside").directory("s/x"), "symbolic link");
  refused(Tar().symlink("s", "../outside").file("s/.wh.victim", ""), "symbolic link");
  refused(Tar().symlink("s", "..").link("l", "s/outside/victim"), "not in the layer");
  refused(Tar().link("l", (outside / "victim").string()), "not in the layer");
  // Through a link that replaced a directory whose descriptor is known.
  refused(Tar().file("d/a", "1").symlink("d", outside).file("d/x", "bad"), "symbolic link");
  // A file in place of a link replaces the link, not its target; a hard link to it is a link to the link.
  ASSERT_TRUE(unpack(Tar().symlink("s", outside / "victim").link("t", "s").file("s", "mine")));
  EXPECT_EQ(text("s"), "mine");
  EXPECT_TRUE(fs::is_symlink(root_ / "t"));
  // A directory in place of a link to one.
  ASSERT_TRUE(unpack(Tar().symlink("s", outside).directory("s", 0700).file("s/x", "in")));
  EXPECT_EQ(text("s/x"), "in");
  // Absolute names start at the root.
  ASSERT_TRUE(unpack(Tar().file("/etc/x", "in").link("//y", "/etc/x")));
  EXPECT_EQ(text("etc/x"), "in");
  EXPECT_EQ(text("y"), "in");
  std::ifstream in(outside / "victim");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), "safe");
  EXPECT_EQ(std::distance(fs::directory_iterator(outside), {}), 1);
}

TEST_F(LayerUnpacker, LaterEntriesReplaceEarlierOnes) {
  Tar tar;
  tar.file("f", "long old text").file("f", "new").symlink("f2", "x").file("f2", "y");
  tar.file("d/deep/er", "x")
      .file("d", "now a file")
      .file("e", "file")
      .directory("e", 0711)
      .file("e/x", "1")
      .directory("e", 0755);
  tar.file("a", "A").file("b", "B").link("b", "a").file("a", "C");
  const auto got = unpack(tar);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(text("f"), "new");
  EXPECT_EQ(text("f2"), "y");
  EXPECT_EQ(text("d"), "now a file");
  EXPECT_EQ(text("e/x"), "1");
  EXPECT_EQ(stat_of("e").st_mode, S_IFDIR | 0755u);
  EXPECT_EQ(text("b"), "A");
  EXPECT_EQ(text("a"), "C");
  refused(Tar().file("f", "x").file("f/g", "y"), "not a directory");
  refused(Tar().file("f", "x").link("f", "f"), "itself");
  refused(Tar().directory("d").link("f", "d"), "hard link to a directory");
  refused(Tar().file("d/f", "x").link("d", "d/f"), "not in the layer");
  refused(Tar().file(".", "x"), "root must be a directory");
  refused(Tar().link("./", "x"), "root");
  ASSERT_TRUE(unpack(Tar().directory("./", 0711)));
  EXPECT_EQ(fs::status(root_).permissions(), fs::perms(0711));
}

TEST_F(LayerUnpacker, DeviceNodesAreMadeOnlyWhenAllowed) {
  Tar tar;
  tar.add({.name = "null", .type = '3', .mode = 0666, .major = 1, .minor = 3}).file("x", "y");
  ASSERT_TRUE(unpack(tar));
  EXPECT_FALSE(fs::exists(root_ / "null"));
  EXPECT_EQ(text("x"), "y");
  UnpackOptions options;
  options.devices = UnpackOptions::Devices::Refuse;
  refused(tar, "device nodes", options);
  options.devices = UnpackOptions::Devices::Create;
  ASSERT_TRUE(unpack(tar, options));
  EXPECT_EQ(stat_of("null").st_rdev, ::makedev(1, 3));
  EXPECT_EQ(stat_of("null").st_mode, S_IFCHR | 0666u);
  refused(Tar().add({.name = "w", .type = '3'}), "whiteout", options);
}

TEST_F(LayerUnpacker, LimitsHold) {
  UnpackOptions options;
  options.max_bytes = 100'000;
  refused(Tar().file("a", std::string(200'000, 'x')), "larger than", options, Code::TooLarge);
  Tar huge;
  huge.add({.name = "a", .pax = {{"size", "9000000000000000000"}}});
  refused(huge, "larger than", {}, Code::TooLarge);
  Tar holes;  // says it is big, brings nothing
  holes.add({.name = "x",
             .data = "0\n",
             .pax = {{"GNU.sparse.major", "1"},
                     {"GNU.sparse.minor", "0"},
                     {"GNU.sparse.name", "x"},
                     {"GNU.sparse.realsize", "9000000000000000000"}}});
  EXPECT_FALSE(unpack(holes));
  options.max_entries = 2;
  refused(Tar().file("a", "").file("b", "").file("c", ""), "too many entries", options, Code::TooLarge);
  refused(Tar().add({.name = "a", .uid = 65536}), "65536");
  refused(Tar().add({.name = "a", .type = '2', .gid = 70000, .link = "b"}), "70000");
  refused(Tar().add({.name = "a", .pax = {{"path", std::string(300, 'x')}}}), "255");
  std::string deep;
  for (int i = 0; i < 3000; ++i) deep += "d/";
  refused(Tar().add({.name = "a", .pax = {{"path", deep + "x"}}}), "too long");
  const auto bomb = unpack(gzip(std::string(8'000'000, '\0')), options);
  ASSERT_FALSE(bomb);
  EXPECT_EQ(bomb.error().code, Code::TooLarge);
}

TEST_F(LayerUnpacker, SparseFilesKeepTheirHoles) {
  // GNU's format 1.0: the map first, padded to a block, then the data.
  std::string map = "2\n0\n3\n8388608\n4\n";
  map.resize(512, '\0');
  Tar tar;
  tar.add({.name = "GNUSparseFile.0/big",
           .data = map + "abcwxyz",
           .pax = {{"GNU.sparse.major", "1"},
                   {"GNU.sparse.minor", "0"},
                   {"GNU.sparse.name", "big"},
                   {"GNU.sparse.realsize", "16777216"}}});
  const auto got = unpack(tar);
  ASSERT_TRUE(got) << got.error().message;
  const struct stat st = stat_of("big");
  EXPECT_EQ(st.st_size, 16777216);
  EXPECT_LT(st.st_blocks * 512, 1 << 20);
  EXPECT_LT(got->bytes, 1u << 20);
  const std::string data = text("big");
  EXPECT_EQ(data.substr(0, 4), std::string("abc\0", 4));
  EXPECT_EQ(data.substr(8388607, 5), std::string("\0wxyz", 5));
}

class CompressedLayer : public LayerUnpacker {};

TEST_F(CompressedLayer, EveryCompressionGivesTheSameTreeAndSums) {
  std::string big(3'000'000, '\0');
  for (std::size_t i = 0; i < big.size(); ++i) big[i] = static_cast<char>(i * i >> 7);
  const std::string tar = Tar().file("big", big).file("x", "y").bytes();
  const std::string half = tar.substr(0, 1'000'001), rest = tar.substr(1'000'001);
  const std::string forms[] = {
      tar, gzip(tar), zstd(tar), gzip(half) + gzip(rest), zstd(half) + zstd(rest), gzip(tar) + std::string(600, '\0')};
  for (const std::string& bytes : forms) {
    for (const std::size_t piece : {std::size_t{1} << 20, std::size_t{4099}, std::size_t{3}}) {
      if (piece == 3 && bytes.size() > 2'000'000) continue;
      UnpackOptions options;
      options.digest = Digest::of(bytes);
      options.diff_id = Digest::of(tar);
      const auto got = unpack(bytes, options, piece);
      ASSERT_TRUE(got) << got.error().message << " " << piece;
      EXPECT_TRUE(text("big") == big);
      EXPECT_EQ(text("x"), "y");
    }
  }
}

TEST_F(CompressedLayer, DamageAndTruncationAreNoticed) {
  const std::string tar = Tar().file("f", std::string(100'000, 'x') + "end").bytes();
  for (const std::string& whole : {gzip(tar), zstd(tar)}) {
    for (const std::size_t cut : {std::size_t{1}, std::size_t{9}, whole.size() / 2}) {
      const auto got = unpack(whole.substr(0, whole.size() - cut));
      ASSERT_FALSE(got) << cut;
      EXPECT_EQ(got.error().code, Code::InvalidRequest) << got.error().message;
    }
  }
  std::string flipped = gzip(tar);
  flipped[flipped.size() / 2] = static_cast<char>(flipped[flipped.size() / 2] ^ 0x55);
  EXPECT_FALSE(unpack(flipped));
  EXPECT_FALSE(unpack(gzip(tar) + "garbage"));
  EXPECT_FALSE(unpack(gzip(tar) + std::string(5, '\0') + "garbage"));
  EXPECT_FALSE(unpack(tar.substr(0, 60'000)));
  EXPECT_FALSE(unpack(std::string("this is no tar")));
  EXPECT_FALSE(unpack(gzip("this is no tar")));
}

TEST_F(CompressedLayer, AnotherDigestIsRefused) {
  const std::string tar = Tar().file("f", "x").bytes();
  UnpackOptions options;
  options.digest = Digest::of("other");
  auto got = unpack(gzip(tar), options);
  ASSERT_FALSE(got);
  EXPECT_THAT(got.error().message, HasSubstr("its digest is sha256:"));
  options.digest.reset();
  options.diff_id = Digest::of("other");
  got = unpack(gzip(tar), options);
  ASSERT_FALSE(got);
  EXPECT_THAT(got.error().message, HasSubstr("its diff id is " + Digest::of(tar).to_string()));
}

TEST_F(CompressedLayer, AFailingSourceIsReported) {
  auto fd = sys::open_at(AT_FDCWD, root_.string(), O_RDONLY | O_DIRECTORY);
  const auto source = [](std::span<char>) -> Result<std::size_t> { return fail(Code::Unavailable, "cable cut"); };
  const auto got = unpack_layer(source, fd->get(), {});
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Code::Unavailable);
  EXPECT_EQ(got.error().message, "cable cut");
}

}  // namespace
}  // namespace osb::image
