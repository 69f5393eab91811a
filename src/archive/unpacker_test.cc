#include "archive/unpacker.h"

#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "archive/tree_archive.h"
#include "support/temp_dir.h"

namespace osb::archive {
namespace {

namespace fs = std::filesystem;
using Type = TarEntry::Type;

std::string content_of(const fs::path& path) {
  std::error_code missing;
  std::string out(fs::is_regular_file(path, missing) ? fs::file_size(path) : 0, '\0');
  std::ifstream(path, std::ios::binary).read(out.data(), static_cast<std::streamsize>(out.size()));
  return out;
}

void write(const fs::path& path, std::string_view content) { std::ofstream(path, std::ios::binary) << content; }

struct stat stat_of(const fs::path& path) {
  struct stat st{};
  EXPECT_EQ(::lstat(path.c_str(), &st), 0) << path;
  return st;
}

// Everything of the archive is kept.
UnpackRules keep_all(UnpackRules::Target target = UnpackRules::Target::Shared) {
  UnpackRules rules;
  rules.target = target;
  rules.owners = UnpackRules::Owners::Attempt;
  rules.mode_mask = 07777;
  return rules;
}

Result<void> unpack(const fs::path& into, std::string_view bytes, std::size_t piece = 4096,
                    UnpackRules rules = keep_all()) {
  Unpacker unpacker(UniqueFd(::open(into.c_str(), O_RDONLY | O_DIRECTORY)), std::move(rules));
  TarReader reader(unpacker);
  while (!bytes.empty()) {
    if (auto ok = reader.feed(bytes.substr(0, piece)); !ok) return ok;
    bytes.remove_prefix(std::min(piece, bytes.size()));
  }
  if (auto ok = reader.finish(); !ok) return ok;
  return unpacker.finish();
}

std::string member(Type type, std::string path, std::string link = "", std::string_view content = "") {
  TarEntry entry;
  entry.type = type;
  entry.path = std::move(path);
  entry.link = std::move(link);
  entry.mode = 0644;
  entry.uid = ::geteuid();
  entry.gid = ::getegid();
  entry.size = content.size();
  std::string out;
  append_tar_header(out, entry);
  out += content;
  out.append(tar_padding(content.size()), '\0');
  return out;
}

std::string pack(const fs::path& tree, std::size_t limit = 1000) {
  auto archive =
      TreeArchive::open(tree.string(), {.owners = true, .user_name = {}, .group_name = {}, .special_files = true});
  EXPECT_TRUE(archive) << archive.error().message;
  std::string all;
  for (bool more = true; more;) {
    std::string piece;
    auto filled = archive->fill(piece, limit);
    EXPECT_TRUE(filled) << filled.error().message;
    all += piece;
    more = filled && *filled;
  }
  return all;
}

// A bit of everything a tree can hold.
void make_tree(const fs::path& root) {
  fs::create_directories(root / "sub" / "empty");
  write(root / "plain", "hello");
  write(root / "sub" / "big", std::string(300'000, 'b'));
  write(root / std::string(200, 'n'), "long name");
  write(root / "not\xffutf8", "bytes");
  write(root / "empty", "");
  fs::create_hard_link(root / "plain", root / "sub" / "hard");
  fs::create_symlink("../plain", root / "sub" / "soft");
  fs::create_symlink("/nowhere/at/all", root / "dangling");
  ::mkfifo((root / "fifo").c_str(), 0600);
  ::chmod((root / "plain").c_str(), 04751);
  ::chmod((root / "sub").c_str(), 0550);
  if (::geteuid() == 0) ::lchown((root / "sub" / "big").c_str(), 1234, 5678);
  const int sparse = ::open((root / "sparse").c_str(), O_CREAT | O_RDWR, 0640);
  ASSERT_EQ(::ftruncate(sparse, 5 << 20), 0);
  ASSERT_EQ(::pwrite(sparse, "middle", 6, 2 << 20), 6);
  ::close(sparse);
  const timespec old[2] = {{1'000'000'000, 5}, {1'234'567'890, 987'654'321}};
  for (const char* name : {"plain", "sub", "dangling", "sparse"}) {
    ASSERT_EQ(::utimensat(AT_FDCWD, (root / name).c_str(), old, AT_SYMLINK_NOFOLLOW), 0);
  }
}

void expect_tree(const fs::path& root, const fs::path& original) {
  for (const char* name : {".", "plain", "sub", "sub/big", "sub/empty", "empty", "dangling", "fifo", "sparse"}) {
    const auto got = stat_of(root / name), want = stat_of(original / name);
    EXPECT_EQ(got.st_mode, want.st_mode) << name;
    EXPECT_EQ(got.st_uid, want.st_uid) << name;
    EXPECT_EQ(got.st_gid, want.st_gid) << name;
    if (!S_ISDIR(want.st_mode)) EXPECT_EQ(got.st_size, want.st_size) << name;
    EXPECT_EQ(got.st_mtim.tv_sec, want.st_mtim.tv_sec) << name;
    EXPECT_EQ(got.st_mtim.tv_nsec, want.st_mtim.tv_nsec) << name;
  }
  EXPECT_EQ(content_of(root / "plain"), "hello");
  EXPECT_EQ(content_of(root / "sub/big"), std::string(300'000, 'b'));
  EXPECT_EQ(content_of(root / std::string(200, 'n')), "long name");
  EXPECT_EQ(content_of(root / "not\xffutf8"), "bytes");
  EXPECT_EQ(fs::read_symlink(root / "sub/soft"), "../plain");
  EXPECT_EQ(fs::read_symlink(root / "dangling"), "/nowhere/at/all");
  EXPECT_EQ(stat_of(root / "sub/hard").st_ino, stat_of(root / "plain").st_ino);
  EXPECT_LT(stat_of(root / "sparse").st_blocks * 512, 1 << 20) << "holes stay holes";
  EXPECT_EQ(content_of(root / "sparse").substr(2 << 20, 6), "middle");
}

TEST(Archive, RoundTripKeepsTheTree) {
  testing::TempDir dir;
  fs::create_directory(dir / "from");
  fs::create_directory(dir / "to");
  make_tree(dir / "from");
  for (const std::size_t limit : {1000, 1 << 20}) {
    const auto done = unpack(dir / "to", pack(dir / "from", limit), limit);
    ASSERT_TRUE(done) << done.error().message;
    expect_tree(dir / "to", dir / "from");
  }
  fs::create_directory(dir / "private");
  const auto done = unpack(dir / "private", pack(dir / "from"), 777, keep_all(UnpackRules::Target::Private));
  ASSERT_TRUE(done) << done.error().message;
  expect_tree(dir / "private", dir / "from");
}

TEST(Archive, GnuTarReadsWhatWeWrite) {
  testing::TempDir dir;
  fs::create_directory(dir / "from");
  fs::create_directory(dir / "to");
  make_tree(dir / "from");
  write(dir / "a.tar", pack(dir / "from"));
  const std::string command = "tar --numeric-owner -C " + (dir / "to").string() + " -xpf " + (dir / "a.tar").string();
  ASSERT_EQ(std::system(command.c_str()), 0);
  expect_tree(dir / "to", dir / "from");
}

TEST(Archive, WeReadWhatGnuTarWrites) {
  testing::TempDir dir;
  fs::create_directory(dir / "from");
  make_tree(dir / "from");
  // The old formats have whole seconds only.
  int number = 0;
  for (const std::string format : {"posix -S --sparse-version=1.0", "posix -S --sparse-version=0.1",
                                   "posix -S --sparse-version=0.0", "gnu -S", "gnu", "ustar"}) {
    const fs::path to = dir / ("to-" + std::to_string(++number));
    fs::create_directory(to);
    const std::string command = "tar --format=" + format + " -C " + (dir / "from").string() + " -cf " +
                                (dir / "a.tar").string() + " . 2>/dev/null";
    // ustar has no room for the long name: tar leaves it out and says so.
    ASSERT_EQ(std::system(command.c_str()) == 0, format != "ustar") << format;
    const auto done = unpack(to, content_of(dir / "a.tar"));
    ASSERT_TRUE(done) << format << ": " << done.error().message;
    EXPECT_EQ(content_of(to / "plain"), "hello") << format;
    EXPECT_EQ(content_of(to / std::string(200, 'n')), format == "ustar" ? "" : "long name") << format;
    EXPECT_EQ(stat_of(to / "plain").st_mtim.tv_sec, 1'234'567'890) << format;
    EXPECT_EQ(stat_of(to / "sub/hard").st_ino, stat_of(to / "plain").st_ino) << format;
    EXPECT_EQ(content_of(to / "sparse"), content_of(dir / "from" / "sparse")) << format;
    if (format.contains("-S")) EXPECT_LT(stat_of(to / "sparse").st_blocks * 512, 1 << 20) << format;
    if (format.starts_with("posix")) expect_tree(to, dir / "from");
  }
}

TEST(Unpacker, NothingLeavesTheDirectory) {
  testing::TempDir dir;
  fs::create_directory(dir / "in");
  fs::create_directory(dir / "out");
  write(dir / "out" / "secret", "s");
  const std::string outside = (dir / "out").string();
  fs::create_directory_symlink(outside, dir / "in" / "existing");
  struct {
    const char* why;
    std::string archive;
  } rows[] = {
      {"absolute path", member(Type::File, outside + "/new", "", "x")},
      {"dot-dot", member(Type::File, "../out/new", "", "x")},
      {"dot-dot in the middle", member(Type::File, "a/../../out/new", "", "x")},
      {"dot-dot directory", member(Type::Directory, "../out/dir")},
      {"symlink in the archive", member(Type::Symlink, "l", outside) + member(Type::File, "l/new", "", "x")},
      {"relative symlink in the archive", member(Type::Symlink, "r", "../out") + member(Type::File, "r/new", "", "x")},
      {"symlink that was there", member(Type::File, "existing/new", "", "x")},
      {"directory over a symlink", member(Type::Directory, "existing")},
      {"directory below a symlink", member(Type::Directory, "existing/new")},
      {"hard link to outside", member(Type::HardLink, "new", outside + "/secret")},
      {"hard link through dot-dot", member(Type::HardLink, "new", "../out/secret")},
      {"hard link through a symlink", member(Type::HardLink, "new", "existing/secret")},
      {"device", member(Type::CharDevice, "null")},
      {"block device", member(Type::BlockDevice, "disk")},
      {"file named like the directory itself",
       member(Type::File, "./", "", "").replace(156, 1, "2")},  // checksum breaks as well
      {"no name", member(Type::Symlink, ".", "x")},
  };
  for (const auto target : {UnpackRules::Target::Shared, UnpackRules::Target::Private}) {
    for (const auto& row : rows) {
      if (target == UnpackRules::Target::Private && row.why == std::string("directory over a symlink")) continue;
      const auto done = unpack(dir / "in", row.archive, 4096, keep_all(target));
      EXPECT_FALSE(done) << row.why;
      if (!done) EXPECT_EQ(done.error().code, Code::InvalidRequest) << row.why << ": " << done.error().message;
    }
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(dir / "out"), {}), 1);
  EXPECT_EQ(stat_of(dir / "out" / "secret").st_nlink, 1u);
  EXPECT_FALSE(fs::exists(fs::symlink_status(dir / "in" / "new")));
}

TEST(Unpacker, ReplacesLinksInsteadOfWritingThroughThem) {
  testing::TempDir dir;
  fs::create_directory(dir / "in");
  write(dir / "outside", "old");
  fs::create_symlink(dir / "outside", dir / "in" / "f");
  ASSERT_TRUE(unpack(dir / "in", member(Type::File, "f", "", "new")));
  EXPECT_EQ(content_of(dir / "outside"), "old");
  EXPECT_EQ(content_of(dir / "in" / "f"), "new");
  EXPECT_FALSE(fs::is_symlink(dir / "in" / "f"));
}

TEST(Unpacker, MakesMissingParentsAndReplacesFiles) {
  testing::TempDir dir;
  ASSERT_TRUE(unpack(dir.path(), member(Type::File, "a/b/c", "", "1")));
  ASSERT_TRUE(unpack(dir.path(), member(Type::File, "./a//b/./c", "", "2")));
  EXPECT_EQ(content_of(dir / "a" / "b" / "c"), "2");
  EXPECT_FALSE(unpack(dir.path(), member(Type::File, "a/b/c/d", "", "3")));
  EXPECT_FALSE(unpack(dir.path(), member(Type::File, "a/b", "", "3"))) << "a directory is in its place";
}

TEST(Unpacker, ABrokenArchiveLeavesWholeFilesOnly) {
  testing::TempDir dir;
  const std::string whole =
      member(Type::File, "first", "", "1") + member(Type::File, "second", "", std::string(5000, '2'));
  EXPECT_FALSE(unpack(dir.path(), std::string_view(whole).substr(0, whole.size() - 2000)));
  EXPECT_EQ(content_of(dir / "first"), "1");
  EXPECT_EQ(std::distance(fs::directory_iterator(dir.path()), {}), 1) << "not the second one, nor a temporary file";
}

TEST(Unpacker, RepeatedHardLinksLeaveNoTemporaryName) {
  testing::TempDir dir;
  const std::string archive = member(Type::File, "a", "", "1") + member(Type::HardLink, "b", "a");
  ASSERT_TRUE(unpack(dir.path(), archive));
  ASSERT_TRUE(unpack(dir.path(), member(Type::HardLink, "b", "a")));
  EXPECT_EQ(std::distance(fs::directory_iterator(dir.path()), {}), 2);
}

TEST(Unpacker, PrivateTargetReplacesAnythingByALaterEntry) {
  testing::TempDir dir;
  const std::string archive = member(Type::Directory, "d") + member(Type::File, "d/deep/x", "", "1") +
                              member(Type::File, "d", "", "a file now") + member(Type::Symlink, "l", "/") +
                              member(Type::Directory, "l") + member(Type::File, "l/x", "", "2");
  const auto done = unpack(dir.path(), archive, 4096, keep_all(UnpackRules::Target::Private));
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(content_of(dir / "d"), "a file now");
  EXPECT_FALSE(fs::is_symlink(dir / "l"));
  EXPECT_EQ(content_of(dir / "l" / "x"), "2");
  EXPECT_FALSE(fs::exists("/x"));
}

TEST(Unpacker, LastOfSeveralEntriesForADirectoryGivesItsMode) {
  testing::TempDir dir;
  TarEntry entry;
  entry.type = Type::Directory;
  entry.path = "d";
  std::string archive;
  for (const mode_t mode : {0700u, 0755u}) {
    entry.mode = mode;
    append_tar_header(archive, entry);
  }
  ASSERT_TRUE(unpack(dir.path(), archive));
  EXPECT_EQ(stat_of(dir / "d").st_mode & 07777u, 0755u);
}

TEST(Unpacker, DefaultRulesKeepNoOwnersAndNoSpecialBits) {
  testing::TempDir dir;
  TarEntry entry;
  entry.path = "tool";
  entry.mode = 06755;
  entry.uid = entry.gid = 4711;
  std::string archive;
  append_tar_header(archive, entry);
  UnpackRules rules;
  rules.devices = rules.fifos = UnpackRules::Special::Skip;
  archive += member(Type::Fifo, "pipe") + member(Type::CharDevice, "null");
  ASSERT_TRUE(unpack(dir.path(), archive, 4096, rules));
  const auto st = stat_of(dir / "tool");
  EXPECT_EQ(st.st_mode & 07777u, 0755u);
  EXPECT_EQ(st.st_uid, ::geteuid());
  EXPECT_EQ(std::distance(fs::directory_iterator(dir.path()), {}), 1) << "neither pipe nor device";
}

TEST(Unpacker, LimitsHold) {
  testing::TempDir dir;
  UnpackRules rules;
  rules.max_entries = 1;
  auto done = unpack(dir.path(), member(Type::File, "a") + member(Type::File, "b"), 4096, rules);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::TooLarge);
  rules = {};
  rules.max_bytes = 3;
  done = unpack(dir.path(), member(Type::File, "c", "", "12") + member(Type::File, "d", "", "34"), 4096, rules);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::TooLarge);
  rules = {};
  rules.owners = UnpackRules::Owners::Require;
  rules.max_id = 65535;
  TarEntry entry;
  entry.path = "e";
  entry.gid = 65536;
  std::string archive;
  append_tar_header(archive, entry);
  EXPECT_FALSE(unpack(dir.path(), archive, 4096, rules));
  EXPECT_FALSE(unpack(dir.path(), member(Type::File, std::string(256, 'n'))));
  std::string deep;
  for (int i = 0; i < 2100; ++i) deep += "d/";
  EXPECT_FALSE(unpack(dir.path(), member(Type::File, deep + "x")));
}

}  // namespace
}  // namespace osb::archive
