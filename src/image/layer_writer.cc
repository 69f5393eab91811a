#include "image/layer_writer.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "archive/data_segments.h"
#include "archive/tar_entry.h"
#include "sys/openat2.h"
#include "sys/syscall.h"
#include "sys/write_all.h"

namespace osb::image {

namespace {

constexpr std::string_view kWhiteout = ".wh.";
constexpr std::string_view kOpaque = ".wh..wh..opq";
constexpr std::size_t kMaxPath = 4095;
constexpr std::size_t kBuffer = 512 << 10;
constexpr std::uint64_t kMaxFilled = std::uint64_t{1} << 30;
constexpr int kPipeBytes = 1 << 20;

std::string shown(std::string_view path) { return "'/" + std::string(path.substr(0, 200)) + "'"; }

Failure changed(std::string_view path) {
  return fail(Code::Conflict, "layer: " + shown(path) + " changed while it was read");
}

using archive::TarEntry;

class TreeWriter {
 public:
  TreeWriter(int root, TreeKind kind, ByteSink& sink, Holes holes, bool sum)
      : root_(root), kind_(kind), sink_(sink), holes_(holes), sum_(sum), buffer_(new char[kBuffer]) {}

  Result<void> run();
  WrittenLayer written() { return {Digest(sha_.finish()), bytes_, entries_, sockets_}; }

 private:
  struct Extras {
    std::vector<std::pair<std::string, std::string>> attributes;
    bool opaque = false;
  };

  Result<void> directory(const std::string& path);
  Result<void> child(int parent, const std::string& path, const char* name);
  Result<void> regular(int parent, const std::string& path, const char* name, const struct stat& seen);
  Result<void> copy(int file, std::string_view path, std::uint64_t offset, std::uint64_t size);
  Result<UniqueFd> open_directory(const std::string& path) const;
  Result<Extras> attributes(int fd, std::string_view path) const;

  Result<void> header(const TarEntry& entry);
  Result<void> write(std::string_view bytes);
  Result<void> zeros(std::size_t count);
  Result<void> flush();

  const int root_;
  const TreeKind kind_;
  ByteSink& sink_;
  const Holes holes_;
  const bool sum_;
  dev_t device_ = 0;
  std::vector<std::string> pending_;                           // directories to visit, the next one last
  std::map<std::pair<dev_t, ino_t>, std::string> hard_links_;  // the first name of files that have several
  std::string header_;
  std::unique_ptr<char[]> buffer_;
  std::size_t filled_ = 0;
  tls::Sha256 sha_;
  std::uint64_t bytes_ = 0, entries_ = 0, sockets_ = 0;
};

// --- output ------------------------------------------------------------------------------------------------------

Result<void> TreeWriter::flush() {
  const std::string_view piece(buffer_.get(), filled_);
  if (piece.empty()) return {};
  if (sum_) sha_.update(piece);
  bytes_ += piece.size();
  filled_ = 0;
  return sink_(piece);
}

Result<void> TreeWriter::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t size = std::min(bytes.size(), kBuffer - filled_);
    std::memcpy(buffer_.get() + filled_, bytes.data(), size);
    filled_ += size;
    bytes.remove_prefix(size);
    if (filled_ < kBuffer) continue;
    if (auto done = flush(); !done) return done;
  }
  return {};
}

Result<void> TreeWriter::zeros(std::size_t count) { return write(std::string(count, '\0')); }

Result<void> TreeWriter::header(const TarEntry& entry) {
  ++entries_;
  header_.clear();
  archive::append_tar_header(header_, entry);
  return write(header_);
}

// Exactly `size` bytes of the file, straight into the buffer.
Result<void> TreeWriter::copy(int file, std::string_view path, std::uint64_t offset, std::uint64_t size) {
  while (size > 0) {
    const std::size_t room = std::min<std::uint64_t>(size, kBuffer - filled_);
    const ssize_t got = ::pread(file, buffer_.get() + filled_, room, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return sys::from_errno("read " + shown(path), errno);
    if (got == 0) return changed(path);
    filled_ += static_cast<std::size_t>(got);
    offset += static_cast<std::uint64_t>(got);
    size -= static_cast<std::uint64_t>(got);
    if (filled_ < kBuffer) continue;
    if (auto done = flush(); !done) return done;
  }
  return {};
}

// --- what the files are ------------------------------------------------------------------------------------------

Result<UniqueFd> TreeWriter::open_directory(const std::string& path) const {
  const int fd = sys::try_openat2(root_, path.empty() ? "." : path.c_str(), O_RDONLY | O_DIRECTORY,
                                  RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
  if (fd >= 0) return UniqueFd(fd);
  if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP) return changed(path);
  return sys::from_errno("open " + shown(path), errno);
}

Result<TreeWriter::Extras> TreeWriter::attributes(int fd, std::string_view path) const {
  Extras out;
  ssize_t length = ::flistxattr(fd, nullptr, 0);
  if (length == 0 || (length < 0 && errno == ENOTSUP)) return out;
  std::vector<char> names(length > 0 ? static_cast<std::size_t>(length) : 0);
  if (length > 0) length = ::flistxattr(fd, names.data(), names.size());
  if (length < 0) return sys::from_errno("list attributes of " + shown(path), errno);
  for (const char* name = names.data(); name < names.data() + length; name += std::strlen(name) + 1) {
    const std::string_view attribute(name);
    if (kind_ == TreeKind::Overlay) {
      if (attribute == "trusted.overlay.redirect" || attribute == "trusted.overlay.metacopy") {
        return fail(Code::Unsupported, "layer: " + shown(path) + " is incomplete without its lower layers (" +
                                           std::string(attribute) + ")");
      }
      char value = 0;
      if (attribute == "trusted.overlay.opaque" && ::fgetxattr(fd, name, &value, 1) == 1) out.opaque = value == 'y';
    }
    const bool user = attribute.starts_with("user.") && !attribute.starts_with("user.overlay.");
    const bool acl = attribute == "system.posix_acl_access" || attribute == "system.posix_acl_default";
    if (!user && !acl && attribute != "security.capability") continue;
    if (attribute.find('=') != std::string_view::npos) {
      return fail(Code::InvalidRequest, "layer: " + shown(path) + " has an attribute that no layer can hold: " + name);
    }
    std::string value(XATTR_SIZE_MAX, '\0');
    const ssize_t size = ::fgetxattr(fd, name, value.data(), value.size());
    if (size < 0 && errno == ENODATA) continue;
    if (size < 0) return sys::from_errno("read attribute " + std::string(name) + " of " + shown(path), errno);
    value.resize(static_cast<std::size_t>(size));
    out.attributes.emplace_back(attribute, std::move(value));
  }
  std::ranges::sort(out.attributes);  // file systems keep them in any order
  return out;
}

// --- the walk ----------------------------------------------------------------------------------------------------

using Type = TarEntry::Type;

TarEntry entry_of(std::string path, Type type, const struct stat& st) {
  TarEntry out;
  out.type = type;
  out.path = std::move(path);
  out.mode = st.st_mode & 07777;
  out.uid = st.st_uid;
  out.gid = st.st_gid;
  out.mtime = st.st_mtim;
  return out;
}

// Stands for a whiteout: an empty file of which only the name means something.
TarEntry marker(std::string path) { return entry_of(std::move(path), Type::File, {}); }

Result<void> TreeWriter::run() {
  pending_ = {""};
  while (!pending_.empty()) {
    const std::string path = std::move(pending_.back());
    pending_.pop_back();
    if (auto done = directory(path); !done) return done;
  }
  if (auto done = zeros(archive::kTarEndBytes); !done) return done;
  return flush();
}

// The directory's own entry and everything in it but directories, whose turn comes later: no descriptor is held per
// level, however deep the tree is.
Result<void> TreeWriter::directory(const std::string& path) {
  auto fd = open_directory(path);
  if (!fd) return Failure(fd.error());
  struct stat st;
  if (::fstat(fd->get(), &st) < 0) return sys::from_errno("stat " + shown(path), errno);
  if (path.empty()) device_ = st.st_dev;
  auto extras = attributes(fd->get(), path);
  if (!extras) return Failure(extras.error());
  TarEntry own = entry_of(path.empty() ? "./" : path + "/", Type::Directory, st);
  own.attributes = std::move(extras->attributes);
  if (auto done = header(own); !done) return done;
  if (extras->opaque) {
    if (auto done = header(marker(path.empty() ? std::string(kOpaque) : path + "/" + std::string(kOpaque))); !done) {
      return done;
    }
  }
  if (st.st_dev != device_) return {};

  const int raw = fd->get();
  std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(raw), &::closedir);
  if (!stream) return sys::from_errno("read " + shown(path), errno);
  (void)fd->release();
  std::vector<std::pair<std::string, bool>> names;  // and whether it is a directory
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(stream.get());
    if (entry == nullptr && errno != 0) return sys::from_errno("read " + shown(path), errno);
    if (entry == nullptr) break;
    const std::string_view name(entry->d_name);
    if (name == "." || name == "..") continue;
    bool is_directory = entry->d_type == DT_DIR;
    if (entry->d_type == DT_UNKNOWN) {
      struct stat there;
      if (::fstatat(raw, entry->d_name, &there, AT_SYMLINK_NOFOLLOW) < 0) return changed(path);
      is_directory = S_ISDIR(there.st_mode);
    }
    names.emplace_back(name, is_directory);
  }
  std::ranges::sort(names);
  const std::size_t first = pending_.size();
  for (const auto& [name, is_directory] : names) {
    std::string full = path.empty() ? name : path + "/" + name;
    if (full.size() > kMaxPath) return fail(Code::InvalidRequest, "layer: " + shown(full) + "..: the path is too long");
    if (name.starts_with(kWhiteout)) {
      return fail(Code::InvalidRequest, "layer: " + shown(full) + ": a name that no layer can hold");
    }
    if (is_directory) {
      pending_.push_back(std::move(full));
    } else if (auto done = child(raw, full, name.c_str()); !done) {
      return done;
    }
  }
  std::ranges::reverse(std::span(pending_).subspan(first));
  return {};
}

Result<void> TreeWriter::child(int parent, const std::string& path, const char* name) {
  struct stat st;
  if (::fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
    if (errno == ENOENT) return changed(path);
    return sys::from_errno("stat " + shown(path), errno);
  }
  if (S_ISSOCK(st.st_mode)) {
    ++sockets_;
    return {};
  }
  if (S_ISCHR(st.st_mode) && st.st_rdev == 0 && kind_ == TreeKind::Overlay) {
    const std::size_t leaf = path.rfind('/') + 1;  // 0 where there is none
    return header(marker(path.substr(0, leaf) + std::string(kWhiteout) + name));
  }
  if (st.st_nlink > 1 && (S_ISREG(st.st_mode) || S_ISLNK(st.st_mode))) {
    const auto [it, first] = hard_links_.try_emplace({st.st_dev, st.st_ino}, path);
    if (!first) {
      TarEntry link = entry_of(path, Type::HardLink, st);
      link.link = it->second;
      return header(link);
    }
  }
  if (S_ISREG(st.st_mode)) return regular(parent, path, name, st);
  if (S_ISLNK(st.st_mode)) {
    TarEntry link = entry_of(path, Type::Symlink, st);
    link.link.resize(PATH_MAX);
    const ssize_t length = ::readlinkat(parent, name, link.link.data(), link.link.size());
    if (length < 0) return changed(path);
    link.link.resize(static_cast<std::size_t>(length));
    return header(link);
  }
  if (S_ISFIFO(st.st_mode)) return header(entry_of(path, Type::Fifo, st));
  if (!S_ISCHR(st.st_mode) && !S_ISBLK(st.st_mode)) return changed(path);
  TarEntry node = entry_of(path, S_ISCHR(st.st_mode) ? Type::CharDevice : Type::BlockDevice, st);
  node.major = major(st.st_rdev);
  node.minor = minor(st.st_rdev);
  return header(node);
}

Result<void> TreeWriter::regular(int parent, const std::string& path, const char* name, const struct stat& seen) {
  // Should it have become a pipe meanwhile, opening it must not wait.
  const auto file = sys::open_at(parent, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_NOATIME);
  if (!file && (file.error().sys_errno == ENOENT || file.error().sys_errno == ELOOP)) return changed(path);
  if (!file) return Failure(file.error());
  struct stat st;
  if (::fstat(file->get(), &st) < 0) return sys::from_errno("stat " + shown(path), errno);
  if (!S_ISREG(st.st_mode) || st.st_ino != seen.st_ino || st.st_dev != seen.st_dev) return changed(path);
  auto extras = attributes(file->get(), path);
  if (!extras) return Failure(extras.error());
  TarEntry own = entry_of(path, Type::File, st);
  own.attributes = std::move(extras->attributes);
  own.size = static_cast<std::uint64_t>(st.st_size);
  std::vector<TarEntry::Segment> segments{{0, own.size}};
  const std::uint64_t allocated = static_cast<std::uint64_t>(st.st_blocks) * 512;
  if (allocated < own.size && (holes_ == Holes::Keep || own.size - allocated > kMaxFilled)) {
    auto found = archive::data_segments(file->get(), own.size);
    if (!found) return with_context("layer: " + shown(path), found.error());
    segments = std::move(*found);
    own.sparse = segments.size() != 1 || segments[0].length != own.size;
    if (own.sparse) own.segments = segments;
  }
  if (auto done = header(own); !done) return done;
  for (const auto& [offset, length] : segments) {
    if (auto done = copy(file->get(), path, offset, length); !done) return done;
  }
  return zeros(archive::tar_padding(archive::stored_bytes(own)));
}

// The thread behind layer_source(): writes into a pipe that the source reads.
class Producer {
 public:
  Producer(UniqueFd root, TreeKind kind, sys::Pipe pipe)
      : root_(std::move(root)), read_(std::move(pipe.read)), write_(std::move(pipe.write)) {
    (void)::fcntl(write_.get(), F_SETPIPE_SZ, kPipeBytes);
    // Signals belong to the program's own threads; a SIGPIPE here ends with the thread.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this, kind] { produce(kind); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  ~Producer() {
    read_.reset();
    thread_.join();
  }
  Producer(const Producer&) = delete;
  Producer& operator=(const Producer&) = delete;

  Result<std::size_t> read(std::span<char> buffer) {
    for (;;) {
      const ssize_t got = ::read(read_.get(), buffer.data(), buffer.size());
      if (got > 0) return static_cast<std::size_t>(got);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return sys::from_errno("read pipe", errno);
      const std::lock_guard lock(mutex_);  // the writer sets it before it closes
      if (error_) return Failure(*error_);
      return 0;
    }
  }

 private:
  void produce(TreeKind kind) {
    ByteSink sink = [this](std::string_view bytes) { return sys::write_all(write_.get(), bytes, "pipe"); };
    Result<void> done = fail(Code::Internal, "layer: out of memory");
    try {
      done = TreeWriter(root_.get(), kind, sink, Holes::Keep, false).run();
    } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): `done` says so already
    }
    if (!done) {
      const std::lock_guard lock(mutex_);
      error_ = done.error();
    }
    write_.reset();
  }

  UniqueFd root_, read_, write_;
  std::mutex mutex_;
  std::optional<Error> error_;
  std::thread thread_;
};

}  // namespace

Result<WrittenLayer> write_layer(int root, TreeKind kind, ByteSink sink, Holes holes) {
  TreeWriter writer(root, kind, sink, holes, true);
  if (auto done = writer.run(); !done) return Failure(done.error());
  return writer.written();
}

ByteSource layer_source(UniqueFd root, TreeKind kind) {
  auto pipe = sys::make_pipe();
  if (!pipe) return [error = pipe.error()](std::span<char>) -> Result<std::size_t> { return Failure(error); };
  return [producer = std::make_unique<Producer>(std::move(root), kind, std::move(*pipe))](std::span<char> buffer) {
    return producer->read(buffer);
  };
}

}  // namespace osb::image
