#include "execd/isolated/overlay_changes.h"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "archive/tar_entry.h"
#include "base/id.h"
#include "sys/remove_tree.h"
#include "sys/syscall.h"
#include "sys/walk.h"
#include "sys/write_all.h"

namespace osb::execd {
namespace {

using archive::TarEntry;

constexpr std::size_t kPiece = 256 * 1024;
constexpr std::string_view kWhiteout = ".wh.";
constexpr std::string_view kOpaque = ".wh..wh..opq";

std::string by_descriptor(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

bool is_whiteout(const struct stat& info) { return S_ISCHR(info.st_mode) && info.st_rdev == makedev(0, 0); }

bool is_opaque(int directory) {
  char value = 0;
  return ::fgetxattr(directory, "user.overlay.opaque", &value, 1) == 1 && value == 'y';
}

// One entry of an upper directory. `below` is its path in the layer, without a first slash.
struct Change {
  int directory;
  const char* name;
  std::string_view below;
  struct stat info;
};

Result<void> for_each_change(const SessionLayer& layer, const std::function<Result<void>(const Change&)>& visit) {
  const std::string root = by_descriptor(layer.upper.get());
  auto walker = sys::Walker::open(root, UINT32_MAX, sys::Walker::RootLink::Follow);
  if (!walker) return Failure(walker.error());
  for (;;) {
    auto entry = walker->next();
    if (!entry) return Failure(entry.error());
    if (*entry == nullptr) return {};
    Change change{(*entry)->directory, (*entry)->name.data(), (*entry)->path.substr(root.size() + 1), {}};
    if (::fstatat(change.directory, change.name, &change.info, AT_SYMLINK_NOFOLLOW) < 0) {
      if (errno == ENOENT) continue;
      return sys::from_errno("stat " + std::string(change.below), errno);
    }
    if (auto done = visit(change); !done) return done;
  }
}

Result<std::string> link_target(int directory, const char* name, std::size_t size) {
  std::string out(size + 1, '\0');
  const ssize_t n = ::readlinkat(directory, name, out.data(), out.size());
  if (n < 0) return sys::from_errno(std::string("readlink ") + name, errno);
  out.resize(static_cast<std::size_t>(n));
  return out;
}

// Copies exactly `size` bytes; a file that has shrunk gives zeros.
Result<void> each_piece(int file, std::uint64_t size, const std::function<Result<void>(std::string_view)>& use) {
  std::string piece(kPiece, '\0');
  for (std::uint64_t at = 0; at < size;) {
    const std::size_t want = static_cast<std::size_t>(std::min<std::uint64_t>(size - at, piece.size()));
    const ssize_t n = ::pread(file, piece.data(), want, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return sys::from_errno("read a changed file", errno);
    const std::size_t got = n == 0 ? want : static_cast<std::size_t>(n);
    if (n == 0) std::fill_n(piece.begin(), want, '\0');
    if (auto done = use({piece.data(), got}); !done) return done;
    at += got;
  }
  return {};
}

// A gzip file whose blocks are stored.
class GzipWriter {
 public:
  explicit GzipWriter(const std::function<Result<void>(std::string_view)>& write) : write_(write) {
    for (std::uint32_t i = 0; i < table_.size(); ++i) {
      std::uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? 0xedb88320U : 0);
      table_[i] = value;
    }
    out_.assign("\x1f\x8b\x08\0\0\0\0\0\0\xff", 10);
  }

  Result<void> add(std::string_view bytes) {
    while (!bytes.empty()) {
      const std::string_view block = bytes.substr(0, 65535);
      append_block(block, false);
      bytes.remove_prefix(block.size());
      if (out_.size() >= kPiece) {
        if (auto done = flush(); !done) return done;
      }
    }
    return {};
  }

  Result<void> finish() {
    append_block({}, true);
    append_number(~crc_, 4);
    append_number(static_cast<std::uint32_t>(size_), 4);
    return flush();
  }

 private:
  void append_number(std::uint32_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) out_ += static_cast<char>(value >> (8 * i) & 0xff);
  }
  void append_block(std::string_view block, bool last) {
    out_ += static_cast<char>(last ? 1 : 0);
    append_number(static_cast<std::uint32_t>(block.size()), 2);
    append_number(~static_cast<std::uint32_t>(block.size()), 2);
    out_ += block;
    for (const char c : block) crc_ = table_[(crc_ ^ static_cast<unsigned char>(c)) & 0xff] ^ crc_ >> 8;
    size_ += block.size();
  }
  Result<void> flush() {
    auto done = write_(out_);
    out_.clear();
    return done;
  }

  const std::function<Result<void>(std::string_view)>& write_;
  std::array<std::uint32_t, 256> table_{};
  std::uint32_t crc_ = ~0U;
  std::uint64_t size_ = 0;
  std::string out_;
};

// The entry of one change; its contents follow where it is a file with some.
Result<std::optional<TarEntry>> describe(const SessionLayer& layer, const Change& change) {
  TarEntry entry;
  const std::string prefix = layer.path.substr(1) + "/";
  entry.path = prefix + std::string(change.below);
  entry.mode = change.info.st_mode & 07777;
  entry.uid = change.info.st_uid;
  entry.gid = change.info.st_gid;
  entry.mtime = change.info.st_mtim;
  if (is_whiteout(change.info)) {
    const std::size_t slash = entry.path.rfind('/');
    entry.path.insert(slash + 1, kWhiteout);
    entry.mode = 0;
    return entry;
  }
  if (S_ISREG(change.info.st_mode)) {
    entry.size = static_cast<std::uint64_t>(change.info.st_size);
    return entry;
  }
  if (S_ISDIR(change.info.st_mode)) {
    entry.type = TarEntry::Type::Directory;
    entry.path += '/';
    return entry;
  }
  if (S_ISLNK(change.info.st_mode)) {
    auto link = link_target(change.directory, change.name, static_cast<std::size_t>(change.info.st_size));
    if (!link) return Failure(link.error());
    entry.type = TarEntry::Type::Symlink;
    entry.link = std::move(*link);
    return entry;
  }
  if (S_ISFIFO(change.info.st_mode)) {
    entry.type = TarEntry::Type::Fifo;
    return entry;
  }
  return std::nullopt;  // sockets, as in every tar
}

Result<void> write_change(const SessionLayer& layer, const Change& change, GzipWriter& out) {
  const auto entry = describe(layer, change);
  if (!entry) return Failure(entry.error());
  if (!*entry) return {};
  std::string head;
  archive::append_tar_header(head, **entry);
  if ((*entry)->type == TarEntry::Type::Directory) {
    auto directory = sys::open_at(change.directory, change.name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (!directory) return Failure(directory.error());
    if (is_opaque(directory->get())) {
      TarEntry mark;
      mark.path = (*entry)->path + std::string(kOpaque);
      archive::append_tar_header(head, mark);
    }
  }
  if (auto done = out.add(head); !done) return done;
  if ((*entry)->type != TarEntry::Type::File || (*entry)->size == 0) return {};
  auto file = sys::open_at(change.directory, change.name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (!file) return Failure(file.error());
  auto copied = each_piece(file->get(), (*entry)->size, [&](std::string_view bytes) { return out.add(bytes); });
  if (!copied) return copied;
  return out.add(std::string(archive::tar_padding((*entry)->size), '\0'));
}

// --- commit

// The lower directory that holds the change, made on the way if an earlier step did not.
Result<UniqueFd> lower_parent(const SessionLayer& layer, std::string_view below) {
  auto directory = sys::open_at(layer.lower.get(), ".", O_RDONLY | O_DIRECTORY);
  for (std::size_t at = 0; directory;) {
    const std::size_t slash = below.find('/', at);
    if (slash == std::string_view::npos) return directory;
    const std::string name(below.substr(at, slash - at));
    directory = sys::open_at(directory->get(), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    at = slash + 1;
  }
  return directory;
}

Result<void> copy_attributes(int directory, const char* name, const struct stat& info) {
  if (::fchownat(directory, name, info.st_uid, info.st_gid, AT_SYMLINK_NOFOLLOW) < 0) {
    return sys::from_errno(std::string("chown ") + name, errno);
  }
  if (!S_ISLNK(info.st_mode) && ::fchmodat(directory, name, info.st_mode & 07777, 0) < 0) {
    return sys::from_errno(std::string("chmod ") + name, errno);
  }
  const timespec times[2] = {info.st_atim, info.st_mtim};
  ::utimensat(directory, name, times, AT_SYMLINK_NOFOLLOW);
  return {};
}

Result<void> make_new(const Change& change, int into, const std::string& name) {
  if (S_ISLNK(change.info.st_mode)) {
    const auto link = link_target(change.directory, change.name, static_cast<std::size_t>(change.info.st_size));
    if (!link) return Failure(link.error());
    if (::symlinkat(link->c_str(), into, name.c_str()) < 0) return sys::from_errno("symlink", errno);
    return {};
  }
  if (S_ISFIFO(change.info.st_mode) || S_ISSOCK(change.info.st_mode)) {
    if (::mknodat(into, name.c_str(), change.info.st_mode, 0) < 0) return sys::from_errno("mknod", errno);
    return {};
  }
  auto from = sys::open_at(change.directory, change.name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (!from) return Failure(from.error());
  auto to = sys::open_at(into, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  if (!to) return Failure(to.error());
  std::uint64_t at = 0;
  return each_piece(from->get(), static_cast<std::uint64_t>(change.info.st_size), [&](std::string_view bytes) {
    auto written = sys::write_all_at(to->get(), at, bytes, "write " + name);
    at += bytes.size();
    return written;
  });
}

Result<void> replace(const Change& change, int parent, const std::string& name) {
  struct stat there{};
  const bool exists = ::fstatat(parent, name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0;
  if (exists && S_ISDIR(there.st_mode)) {
    if (auto removed = sys::remove_tree(parent, name); !removed) return removed;
  }
  const std::string temporary = ".commit-" + new_hex_id();
  auto made = make_new(change, parent, temporary);
  if (made) made = copy_attributes(parent, temporary.c_str(), change.info);
  if (made && ::renameat(parent, temporary.c_str(), parent, name.c_str()) < 0) made = sys::from_errno("rename", errno);
  if (!made) ::unlinkat(parent, temporary.c_str(), 0);
  return made;
}

Result<void> merge_directory(const Change& change, int parent, const std::string& name) {
  auto upper = sys::open_at(change.directory, change.name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (!upper) return Failure(upper.error());
  struct stat there{};
  const bool exists = ::fstatat(parent, name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0;
  if (exists && (!S_ISDIR(there.st_mode) || is_opaque(upper->get()))) {
    if (auto removed = sys::remove_tree(parent, name); !removed) return removed;
  }
  if (::mkdirat(parent, name.c_str(), 0700) < 0 && errno != EEXIST) return sys::from_errno("mkdir " + name, errno);
  return copy_attributes(parent, name.c_str(), change.info);
}

Result<void> commit_one(const SessionLayer& layer, const Change& change, CommitCounts& counts) {
  auto parent = lower_parent(layer, change.below);
  if (!parent) return Failure(parent.error());
  const std::string name = change.name;
  if (is_whiteout(change.info)) {
    ++counts.removed;
    return sys::remove_tree(parent->get(), name);
  }
  ++counts.written;
  return S_ISDIR(change.info.st_mode) ? merge_directory(change, parent->get(), name)
                                      : replace(change, parent->get(), name);
}

}  // namespace

Result<void> write_changes(const std::vector<SessionLayer>& layers, std::uint64_t most,
                           const std::function<Result<void>(std::string_view)>& write) {
  std::uint64_t size = archive::kTarEndBytes;
  for (const SessionLayer& layer : layers) {
    auto counted = for_each_change(layer, [&](const Change& change) -> Result<void> {
      size += archive::kTarBlock;
      if (S_ISREG(change.info.st_mode)) size += static_cast<std::uint64_t>(change.info.st_size);
      return {};
    });
    if (!counted) return counted;
  }
  if (size > most) {
    return fail(Code::TooLarge, "the diff has " + std::to_string(size) + " bytes, more than " + std::to_string(most));
  }
  GzipWriter out(write);
  for (const SessionLayer& layer : layers) {
    auto written = for_each_change(layer, [&](const Change& change) { return write_change(layer, change, out); });
    if (!written) return written;
  }
  if (auto done = out.add(std::string(archive::kTarEndBytes, '\0')); !done) return done;
  return out.finish();
}

Result<CommitCounts> commit_changes(const std::vector<SessionLayer>& layers) {
  CommitCounts counts;
  for (const SessionLayer& layer : layers) {
    auto done = for_each_change(layer, [&](const Change& change) -> Result<void> {
      auto one = commit_one(layer, change, counts);
      return one ? one : with_context(layer.path + "/" + std::string(change.below), one.error());
    });
    if (!done) return Failure(done.error());
  }
  return counts;
}

}  // namespace osb::execd
