#include "image/layer_writer.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/xattr.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "image/layer_fixture.h"
#include "image/layer_unpacker.h"
#include "support/temp_dir.h"
#include "sys/syscall.h"

namespace osb::image {
namespace {

using namespace image::testing;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

// cap_net_bind_service+ep, as setcap writes it.
const std::string kCapability("\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", 20);
// user::rw-,user:7:r--,group::r--,mask::r--,other::---
const std::string kAcl(
    "\x02\0\0\0\x01\0\x06\0\xff\xff\xff\xff\x02\0\x04\0\x07\0\0\0\x04\0\x04\0\xff\xff\xff\xff"
    "\x10\0\x04\0\xff\xff\xff\xff\x20\0\0\0\xff\xff\xff\xff",
    44);

UniqueFd open_root(const fs::path& path) {
  auto fd = sys::open_at(AT_FDCWD, path.string(), O_RDONLY | O_DIRECTORY);
  return fd ? std::move(*fd) : UniqueFd();
}

// Everything that tells one tree from another, by path.
std::map<std::string, std::string> describe(const fs::path& root) {
  std::map<std::string, std::string> out;
  std::map<ino_t, std::string> first;
  const auto add = [&](const fs::path& path) {
    struct stat st{};
    ASSERT_EQ(::lstat(path.c_str(), &st), 0) << path;
    const std::string name = path.lexically_relative(root).string();
    std::string text =
        fmt::format("{:o} {}:{} {}.{:09} ", st.st_mode, st.st_uid, st.st_gid, st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
    if (S_ISREG(st.st_mode)) {
      std::ifstream in(path, std::ios::binary);
      std::string data(static_cast<std::size_t>(st.st_size), '\0');
      ASSERT_TRUE(in.read(data.data(), st.st_size) || st.st_size == 0) << path;
      text += fmt::format("{} bytes {} ", data.size(), Digest::of(data).hex());
    }
    if (S_ISLNK(st.st_mode)) text += fs::read_symlink(path).string() + " ";
    if (S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode)) text += fmt::format("dev {} ", st.st_rdev);
    char names[4096];
    const ssize_t length = ::llistxattr(path.c_str(), names, sizeof names);
    std::map<std::string, std::string> attributes;
    for (const char* n = names; n < names + std::max<ssize_t>(length, 0); n += std::strlen(n) + 1) {
      char value[4096];
      const ssize_t size = ::lgetxattr(path.c_str(), n, value, sizeof value);
      attributes[n] = Digest::of({value, static_cast<std::size_t>(std::max<ssize_t>(size, 0))}).hex();
    }
    for (const auto& [key, value] : attributes) text += key + "=" + value + " ";
    if (!S_ISDIR(st.st_mode)) text += "same as " + first.try_emplace(st.st_ino, name).first->second;
    out[name] = text;
  };
  add(root);
  std::vector<fs::path> paths;
  for (const auto& entry : fs::recursive_directory_iterator(root)) paths.push_back(entry.path());
  std::ranges::sort(paths);
  for (const fs::path& path : paths) add(path);
  return out;
}

void expect_same(const fs::path& is, const fs::path& wanted) {
  auto left = describe(is), right = describe(wanted);
  for (const auto& [name, text] : right) EXPECT_EQ(left[name], text) << name.substr(0, 60);
  for (const auto& [name, text] : left) EXPECT_TRUE(right.contains(name)) << name.substr(0, 60);
}

class LayerWriter : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: layers keep owners, capabilities and whiteouts";
    fs::create_directory(tree_);
    fs::create_directory(copy_);
  }

  fs::path file(const std::string& name, const std::string& data = "data") {
    const fs::path path = tree_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << data;
    return path;
  }
  void whiteout(const std::string& name) { ASSERT_EQ(::mknod((tree_ / name).c_str(), S_IFCHR, 0), 0); }
  static void set_time(const fs::path& path, time_t seconds, long nanoseconds) {
    const timespec times[2] = {{seconds, nanoseconds}, {seconds, nanoseconds}};
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW), 0);
  }
  static void set_attribute(const fs::path& path, const char* name, const std::string& value) {
    ASSERT_EQ(::lsetxattr(path.c_str(), name, value.data(), value.size(), 0), 0) << name << ": " << errno;
  }

  Result<WrittenLayer> write(TreeKind kind = TreeKind::Overlay) {
    tar_.clear();
    return write_layer(open_root(tree_).get(), kind, [this](std::string_view bytes) {
      tar_ += bytes;
      return Result<void>();
    });
  }
  Result<UnpackedLayer> unpack() {
    UnpackOptions options;
    options.devices = UnpackOptions::Devices::Create;
    return unpack_layer(from_memory(tar_), open_root(copy_).get(), options);
  }
  void same_again(TreeKind kind = TreeKind::Overlay) {
    const auto wrote = write(kind);
    ASSERT_TRUE(wrote) << wrote.error().message;
    EXPECT_EQ(wrote->diff_id, Digest::of(tar_));
    EXPECT_EQ(wrote->bytes, tar_.size());
    EXPECT_EQ(tar_.size() % 512, 0u);
    const auto unpacked = unpack();
    ASSERT_TRUE(unpacked) << unpacked.error().message;
    EXPECT_EQ(unpacked->diff_id, wrote->diff_id);
    expect_same(copy_, tree_);
    const auto again = write_layer(open_root(copy_).get(), kind, [](std::string_view) { return Result<void>(); });
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(again->diff_id, wrote->diff_id) << "the same tree must give the same bytes";
  }

  osb::testing::TempDir dir_;
  const fs::path tree_ = dir_ / "tree", copy_ = dir_ / "copy";
  std::string tar_;
};

TEST_F(LayerWriter, ATreeWithEverythingComesBackExactly) {
  ASSERT_EQ(::chmod(tree_.c_str(), 0751), 0);
  file("empty", "");
  file("big", std::string(3 << 20, 'x') + "end");
  ASSERT_EQ(::chown(file("owned").c_str(), 1000, 65535), 0);
  ASSERT_EQ(::chmod(file("setuid").c_str(), 06755), 0);
  ASSERT_EQ(::chown((tree_ / "setuid").c_str(), 33, 44), 0);
  ASSERT_EQ(::chmod((tree_ / "setuid").c_str(), 06755), 0);
  ASSERT_EQ(::chmod(file("nothing").c_str(), 0), 0);
  set_attribute(file("capable"), "security.capability", kCapability);
  set_attribute(file("acl"), "system.posix_acl_access", kAcl);
  set_attribute(file("attributes"), "user.binary", std::string("a\0=\n\xff", 5));
  set_attribute(tree_ / "attributes", "user.empty", "");
  fs::create_directories(tree_ / "shared");
  ASSERT_EQ(::chown((tree_ / "shared").c_str(), 5, 50), 0);
  ASSERT_EQ(::chmod((tree_ / "shared").c_str(), 03777), 0);
  file("shared/inherits");
  ASSERT_EQ(::chown((tree_ / "shared/inherits").c_str(), 0, 0), 0);
  set_attribute(tree_ / "shared", "user.of-directory", "y");
  set_attribute(tree_ / "shared", "system.posix_acl_default", kAcl);
  fs::create_hard_link(file("link/a", "linked"), tree_ / "link/b");
  fs::create_hard_link(tree_ / "link/a", tree_ / "z");
  fs::create_symlink("../nowhere", tree_ / "link/symbolic");
  fs::create_hard_link(tree_ / "link/symbolic", tree_ / "link/symbolic2");
  ASSERT_EQ(::lchown((tree_ / "link/symbolic").c_str(), 7, 8), 0);
  fs::create_symlink(std::string(3000, 'l'), tree_ / "long link");
  ASSERT_EQ(::mkfifo((tree_ / "pipe").c_str(), 0640), 0);
  ASSERT_EQ(::mknod((tree_ / "device").c_str(), S_IFBLK | 0660, makedev(8, 300)), 0);
  file(std::string(99, 'd') + "/" + std::string(255, 'n'));
  file("not utf-8 \xff\xfe");
  file(std::string(200, '\xe4') + "/" + std::string(200, '\xf6'));
  file("\xc3\xa4\xf0\x9f\x98\x80");
  file(" blanks and\nnewline ");
  set_time(tree_ / "z", 1'700'000'000, 123'456'789);
  set_time(tree_ / "empty", -5, 0);
  set_time(tree_ / "owned", 0, 0);
  set_time(tree_ / "link/symbolic", 12, 1);
  set_time(tree_ / "shared", 1'600'000'000, 999'999'999);
  same_again(TreeKind::Plain);
}

TEST_F(LayerWriter, WhiteoutsAndOpaqueDirectoriesBecomeNamesAndComeBack) {
  file("kept");
  whiteout("gone");
  fs::create_directory(tree_ / "directory");
  whiteout("directory/" + std::string(255, 'g'));
  fs::create_hard_link(tree_ / "gone", tree_ / "shares its inode");  // as overlayfs does it
  fs::create_directory(tree_ / "opaque");
  file("opaque/new");
  set_attribute(tree_ / "opaque", "trusted.overlay.opaque", "y");
  set_attribute(tree_, "trusted.overlay.origin", "whatever");
  set_attribute(tree_, "trusted.overlay.impure", "y");
  const auto wrote = write();
  ASSERT_TRUE(wrote) << wrote.error().message;
  EXPECT_THAT(tar_, HasSubstr(".wh.gone"));
  EXPECT_THAT(tar_, HasSubstr("opaque/.wh..wh..opq"));
  const auto unpacked = unpack();
  ASSERT_TRUE(unpacked) << unpacked.error().message;
  for (const std::string name : {"gone", "shares its inode"}) {
    struct stat st{};
    ASSERT_EQ(::lstat((copy_ / name).c_str(), &st), 0);
    EXPECT_TRUE(S_ISCHR(st.st_mode) && st.st_rdev == 0) << name;
  }
  char value = 0;
  EXPECT_EQ(::lgetxattr((copy_ / "opaque").c_str(), "trusted.overlay.opaque", &value, 1), 1);
  EXPECT_EQ(::lgetxattr(copy_.c_str(), "trusted.overlay.origin", nullptr, 0), -1);
  const auto again = write_layer(open_root(copy_).get(), TreeKind::Overlay, [](auto) { return Result<void>(); });
  ASSERT_TRUE(again);
  EXPECT_EQ(again->diff_id, wrote->diff_id);
}

TEST_F(LayerWriter, AnUpperDirectoryOfARealOverlayShowsTheSameThroughItsLayer) {
  for (const char* name : {"lower", "work", "merged"}) fs::create_directory(dir_ / name);
  const auto lower = [&](const std::string& name) {
    fs::create_directories((dir_ / "lower" / name).parent_path());
    std::ofstream(dir_ / "lower" / name) << "from below";
  };
  for (const char* name : {"removed", "changed", "replaced/old", "stays", "dir/in", "swapped"}) lower(name);
  const auto mount = [&](const fs::path& upper) {
    const std::string options = fmt::format("lowerdir={},upperdir={},workdir={},redirect_dir=off,metacopy=off",
                                            (dir_ / "lower").string(), upper.string(), (dir_ / "work").string());
    return ::mount("overlay", (dir_ / "merged").c_str(), "overlay", 0, options.c_str());
  };
  ASSERT_EQ(mount(tree_), 0) << errno;
  const fs::path merged = dir_ / "merged";
  fs::remove(merged / "removed");
  std::ofstream(merged / "changed") << "changed";
  fs::remove_all(merged / "replaced");
  fs::create_directory(merged / "replaced");
  std::ofstream(merged / "replaced/new") << "new";
  fs::remove(merged / "swapped");
  fs::create_directory(merged / "swapped");
  const auto before = describe(merged);
  ASSERT_EQ(::umount(merged.c_str()), 0);

  ASSERT_TRUE(write());
  const auto unpacked = unpack();
  ASSERT_TRUE(unpacked) << unpacked.error().message;
  ASSERT_EQ(mount(copy_), 0) << errno;
  const auto after = describe(merged);
  EXPECT_EQ(::umount(merged.c_str()), 0);
  EXPECT_EQ(after, before);
}

TEST_F(LayerWriter, HolesStayHoles) {
  const auto sparse = [&](const std::string& name, std::initializer_list<off_t> data, off_t size) {
    const auto fd = sys::open_at(AT_FDCWD, (tree_ / name).string(), O_WRONLY | O_CREAT, 0644);
    ASSERT_TRUE(fd);
    for (const off_t at : data) ASSERT_EQ(::pwrite(fd->get(), "data", 4, at), 4);
    ASSERT_EQ(::ftruncate(fd->get(), size), 0);
  };
  sparse("middle", {1 << 20}, 2 << 20);
  sparse("ends", {0, (4 << 20) - 4}, 4 << 20);
  sparse("only a hole", {}, 1 << 20);
  sparse("\xff odd name", {1 << 20, 3 << 20}, (3 << 20) + 17);
  same_again();
  EXPECT_LT(tar_.size(), 100'000u);
  for (const std::string name : {"middle", "ends", "only a hole"}) {
    struct stat st{};
    ASSERT_EQ(::stat((copy_ / name).c_str(), &st), 0);
    EXPECT_LT(st.st_blocks * 512, 100'000) << name;
  }
}

TEST_F(LayerWriter, HolesCanBeFilledButNotWithoutLimit) {
  for (const auto& [name, size] : {std::pair("small", 1 << 20), {"huge", (std::int64_t{1} << 30) + (64 << 20)}}) {
    const fs::path path = file(name, "start");
    fs::resize_file(path, static_cast<std::uintmax_t>(size));
  }
  const auto wrote = write_layer(
      open_root(tree_).get(), TreeKind::Plain,
      [this](std::string_view bytes) {
        tar_ += bytes;
        return Result<void>();
      },
      Holes::Fill);
  ASSERT_TRUE(wrote);
  EXPECT_GT(tar_.size(), 1u << 20);
  EXPECT_LT(tar_.size(), 2u << 20);
  ASSERT_TRUE(unpack());
  EXPECT_EQ(fs::file_size(copy_ / "huge"), fs::file_size(tree_ / "huge"));
  fs::remove(copy_ / "huge");
  fs::remove(tree_ / "huge");
  const timespec same[2] = {};
  for (const fs::path& root : {copy_, tree_}) ASSERT_EQ(::utimensat(AT_FDCWD, root.c_str(), same, 0), 0);
  expect_same(copy_, tree_);
}

TEST_F(LayerWriter, AFileWithVeryManyHolesKeepsItsContent) {
  const auto fd = sys::open_at(AT_FDCWD, (tree_ / "comb").string(), O_WRONLY | O_CREAT, 0644);
  ASSERT_TRUE(fd);
  for (off_t i = 0; i < 12'000; ++i) ASSERT_EQ(::pwrite(fd->get(), "x", 1, i * 8192), 1);
  ASSERT_TRUE(write());
  ASSERT_TRUE(unpack());
  expect_same(copy_, tree_);
}

TEST_F(LayerWriter, OtherToolsReadTheSame) {
  file("plain", "text");
  fs::create_hard_link(tree_ / "plain", tree_ / "second");
  set_attribute(tree_ / "plain", "user.x", "y");
  file(std::string(120, 'a') + "/" + std::string(120, 'b'), "long");
  const auto fd = sys::open_at(AT_FDCWD, (tree_ / "sparse").string(), O_WRONLY | O_CREAT, 0644);
  ASSERT_EQ(::pwrite(fd->get(), "data", 4, 1 << 20), 4);
  set_time(tree_ / "sparse", 1'234'567'890, 5);
  ASSERT_TRUE(write());
  std::ofstream(dir_ / "layer.tar", std::ios::binary) << tar_;
  const std::string command = fmt::format("tar --xattrs --xattrs-include='*' -C {} -xpf {} 2>&1", copy_.string(),
                                          (dir_ / "layer.tar").string());
  ASSERT_EQ(std::system(command.c_str()), 0);
  expect_same(copy_, tree_);
}

TEST_F(LayerWriter, SocketsAreLeftOut) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const UniqueFd socket(fd);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  const std::string path = (tree_ / "socket").string();
  ASSERT_LT(path.size(), sizeof address.sun_path);
  std::memcpy(address.sun_path, path.c_str(), path.size());
  ASSERT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  const auto wrote = write();
  ASSERT_TRUE(wrote);
  EXPECT_EQ(wrote->sockets, 1u);
  EXPECT_EQ(wrote->entries, 1u);
}

TEST_F(LayerWriter, OtherFileSystemsBelowAreNotEntered) {
  fs::create_directory(tree_ / "mounted");
  ASSERT_EQ(::mount("none", (tree_ / "mounted").c_str(), "tmpfs", 0, "size=64k"), 0);
  file("mounted/secret");
  const auto wrote = write();
  EXPECT_EQ(::umount((tree_ / "mounted").c_str()), 0);
  ASSERT_TRUE(wrote) << wrote.error().message;
  EXPECT_EQ(wrote->entries, 2u);
  EXPECT_EQ(tar_.find("secret"), std::string::npos);
}

TEST_F(LayerWriter, NamesThatALayerCannotHoldAreRefused) {
  file(".wh.file");
  auto got = write();
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Code::InvalidRequest);
  EXPECT_THAT(got.error().message, HasSubstr(".wh.file"));
  fs::remove(tree_ / ".wh.file");
  set_attribute(file("f"), "user.a=b", "");
  EXPECT_EQ(write().error().code, Code::InvalidRequest);
  fs::remove(tree_ / "f");
  fs::create_directory(tree_ / "d");
  set_attribute(tree_ / "d", "trusted.overlay.redirect", "/other");
  EXPECT_EQ(write().error().code, Code::Unsupported);
  EXPECT_TRUE(write(TreeKind::Plain)) << "there it is an ordinary attribute";
}

TEST_F(LayerWriter, ADeepTreeNeedsNoDescriptorPerLevel) {
  UniqueFd at = open_root(tree_);
  const auto descend = [&](int levels, const std::string& name) {
    for (int i = 0; i < levels; ++i) {
      ASSERT_EQ(::mkdirat(at.get(), name.c_str(), 0755), 0);
      auto next = sys::open_at(at.get(), name, O_RDONLY | O_DIRECTORY);
      ASSERT_TRUE(next);
      at = std::move(*next);
    }
  };
  descend(1100, "d");
  const auto wrote = write();
  ASSERT_TRUE(wrote) << wrote.error().message;
  EXPECT_EQ(wrote->entries, 1101u);
  descend(10, std::string(200, 'd'));
  EXPECT_THAT(write().error().message, HasSubstr("too long"));
}

TEST_F(LayerWriter, AFileThatShrinksMeanwhileIsAConflict) {
  const fs::path big = file("big", std::string(4 << 20, 'x'));
  const auto got = write_layer(open_root(tree_).get(), TreeKind::Plain, [&](std::string_view) -> Result<void> {
    fs::resize_file(big, 10);
    return {};
  });
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Code::Conflict) << got.error().message;
}

TEST_F(LayerWriter, TheSourceGivesTheSameBytesAndMayBeDropped) {
  file("big", std::string(8 << 20, 'x'));
  ASSERT_TRUE(write());
  ByteSource source = layer_source(open_root(tree_), TreeKind::Overlay);
  std::string read, buffer(100'000, '\0');
  for (;;) {
    const auto got = source(buffer);
    ASSERT_TRUE(got);
    if (*got == 0) break;
    read.append(buffer, 0, *got);
  }
  EXPECT_EQ(Digest::of(read), Digest::of(tar_));
  ByteSource dropped = layer_source(open_root(tree_), TreeKind::Overlay);
  ASSERT_TRUE(dropped(buffer));
  dropped = nullptr;

  file(".wh.bad");
  ByteSource failing = layer_source(open_root(tree_), TreeKind::Overlay);
  Result<std::size_t> got = failing(buffer);
  while (got && *got > 0) got = failing(buffer);
  ASSERT_FALSE(got) << "an error must not look like an end";
  EXPECT_EQ(got.error().code, Code::InvalidRequest);
}

}  // namespace
}  // namespace osb::image
