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

#include "image/tar_header.h"
#include "sys/openat2.h"
#include "sys/syscall.h"

namespace osb::image {

namespace {

constexpr std::string_view kWhiteout = ".wh.";
constexpr std::string_view kOpaque = ".wh..wh..opq";
constexpr std::size_t kMaxPath = 4095;
constexpr std::size_t kBuffer = 512 << 10;
constexpr std::size_t kMaxSegments = 10'000;
constexpr std::uint64_t kMaxFilled = std::uint64_t{1} << 30;
constexpr int kPipeBytes = 1 << 20;

std::string shown(std::string_view path) { return "'/" + std::string(path.substr(0, 200)) + "'"; }

Failure changed(std::string_view path) {
  return fail(Code::Conflict, "layer: " + shown(path) + " changed while it was read");
}

// A stretch of a file that holds data.
struct Segment {
  std::uint64_t offset, size;
};

class TreeWriter {
 public:
  TreeWriter(int root, TreeKind kind, ByteSink& sink, Holes holes, bool sum)
      : root_(root), kind_(kind), sink_(sink), holes_(holes), sum_(sum), buffer_(new char[kBuffer]) {}

  Result<void> run();
  WrittenLayer written() { return {Digest(sha_.finish()), bytes_, entries_, sockets_}; }

 private:
  using Attributes = std::vector<std::pair<std::string, std::string>>;
  struct Extras {
    Attributes records;  // for the pax header
    bool opaque = false;
  };

  Result<void> directory(const std::string& path);
  Result<void> child(int parent, const std::string& path, const char* name);
  Result<void> regular(int parent, TarHeader header, const char* name, const struct stat& seen);
  Result<void> sparse(int file, TarHeader header, std::uint64_t size);
  Result<void> copy(int file, std::string_view path, std::uint64_t offset, std::uint64_t size);
  Result<UniqueFd> open_directory(const std::string& path) const;
  Result<Extras> attributes(int fd, std::string_view path) const;
  Result<std::optional<std::vector<Segment>>> segments(int file, std::string_view path, const struct stat& st) const;

  Result<void> header(const TarHeader& header);
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

Result<void> TreeWriter::header(const TarHeader& header) {
  ++entries_;
  return write(header.encode());
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
    out.records.emplace_back("SCHILY.xattr." + std::string(attribute), std::move(value));
  }
  std::ranges::sort(out.records);  // file systems keep them in any order
  return out;
}

// Where a file with holes has data; nothing for one without.
Result<std::optional<std::vector<Segment>>> TreeWriter::segments(int file, std::string_view path,
                                                                 const struct stat& st) const {
  const auto size = static_cast<std::uint64_t>(st.st_size);
  const std::uint64_t allocated = static_cast<std::uint64_t>(st.st_blocks) * 512;
  if (allocated >= size || (holes_ == Holes::Fill && size - allocated <= kMaxFilled)) return std::nullopt;
  std::vector<Segment> out;
  for (std::uint64_t at = 0; at < size;) {
    const off_t data = ::lseek(file, static_cast<off_t>(at), SEEK_DATA);
    if (data < 0 && errno == ENXIO) break;
    if (data < 0 && errno == EINVAL) return std::nullopt;  // a file system that does not know
    if (data < 0) return sys::from_errno("seek " + shown(path), errno);
    const off_t hole = ::lseek(file, data, SEEK_HOLE);
    if (hole < 0 && errno != ENXIO) return sys::from_errno("seek " + shown(path), errno);
    const std::uint64_t end = hole < 0 ? size : std::min(static_cast<std::uint64_t>(hole), size);
    if (static_cast<std::uint64_t>(data) >= end) break;
    out.push_back({static_cast<std::uint64_t>(data), end - static_cast<std::uint64_t>(data)});
    at = end;
  }
  if (out.size() == 1 && out[0].size == size) return std::nullopt;
  // Readers limit the map: close the smaller holes, which read as zeros.
  for (std::uint64_t gap = 64 << 10; out.size() > kMaxSegments; gap *= 2) {
    std::vector<Segment> merged{out.front()};
    for (const Segment& s : std::span(out).subspan(1)) {
      Segment& last = merged.back();
      if (s.offset - (last.offset + last.size) <= gap) {
        last.size = s.offset + s.size - last.offset;
      } else {
        merged.push_back(s);
      }
    }
    out = std::move(merged);
  }
  return out;
}

// --- the walk ----------------------------------------------------------------------------------------------------

TarHeader header_of(std::string path, char type, const struct stat& st) {
  return {.path = std::move(path),
          .type = type,
          .size = 0,
          .mode = st.st_mode & 07777,
          .uid = st.st_uid,
          .gid = st.st_gid,
          .mtime = st.st_mtim,
          .link = {},
          .device = 0,
          .records = {}};
}

// What stands for a whiteout: an empty file of which only the name means something.
TarHeader marker(std::string path) { return header_of(std::move(path), '0', {}); }

Result<void> TreeWriter::run() {
  pending_ = {""};
  while (!pending_.empty()) {
    const std::string path = std::move(pending_.back());
    pending_.pop_back();
    if (auto done = directory(path); !done) return done;
  }
  if (auto done = write(tar_end()); !done) return done;
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
  TarHeader own = header_of(path.empty() ? "./" : path + "/", '5', st);
  own.records = std::move(extras->records);
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
      TarHeader link = header_of(path, '1', st);
      link.link = it->second;
      return header(link);
    }
  }
  if (S_ISREG(st.st_mode)) return regular(parent, header_of(path, '0', st), name, st);
  if (S_ISLNK(st.st_mode)) {
    TarHeader link = header_of(path, '2', st);
    link.link.resize(PATH_MAX);
    const ssize_t length = ::readlinkat(parent, name, link.link.data(), link.link.size());
    if (length < 0) return changed(path);
    link.link.resize(static_cast<std::size_t>(length));
    return header(link);
  }
  if (S_ISFIFO(st.st_mode)) return header(header_of(path, '6', st));
  if (!S_ISCHR(st.st_mode) && !S_ISBLK(st.st_mode)) return changed(path);
  TarHeader node = header_of(path, S_ISCHR(st.st_mode) ? '3' : '4', st);
  node.device = st.st_rdev;
  return header(node);
}

Result<void> TreeWriter::regular(int parent, TarHeader head, const char* name, const struct stat& seen) {
  // Should it have become a pipe meanwhile, opening it must not wait.
  const auto file = sys::open_at(parent, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_NOATIME);
  if (!file && (file.error().sys_errno == ENOENT || file.error().sys_errno == ELOOP)) return changed(head.path);
  if (!file) return Failure(file.error());
  struct stat st;
  if (::fstat(file->get(), &st) < 0) return sys::from_errno("stat " + shown(head.path), errno);
  if (!S_ISREG(st.st_mode) || st.st_ino != seen.st_ino || st.st_dev != seen.st_dev) return changed(head.path);
  auto extras = attributes(file->get(), head.path);
  if (!extras) return Failure(extras.error());
  const auto size = static_cast<std::uint64_t>(st.st_size);
  TarHeader own = header_of(head.path, '0', st);
  own.records = std::move(extras->records);
  auto map = segments(file->get(), own.path, st);
  if (!map) return Failure(map.error());
  if (*map) {
    // A sparse file in the pax form 1.0: its map, padded, then its data without the holes.
    std::vector<Segment>& data = **map;
    if (data.empty() || data.back().offset + data.back().size < size) data.push_back({size, 0});
    std::string text = std::to_string(data.size()) + "\n";
    std::uint64_t stored = 0;
    for (const Segment& s : data) {
      text += std::to_string(s.offset) + "\n" + std::to_string(s.size) + "\n";
      stored += s.size;
    }
    text.append(tar_padding(text.size()), '\0');
    own.records.insert(own.records.begin(), {{"GNU.sparse.major", "1"},
                                             {"GNU.sparse.minor", "0"},
                                             {"GNU.sparse.name", own.path},
                                             {"GNU.sparse.realsize", std::to_string(size)}});
    own.size = text.size() + stored;
    if (auto done = header(own); !done) return done;
    if (auto done = write(text); !done) return done;
    for (const Segment& s : data) {
      if (auto done = copy(file->get(), own.path, s.offset, s.size); !done) return done;
    }
    return zeros(tar_padding(stored));
  }
  own.size = size;
  if (auto done = header(own); !done) return done;
  if (auto done = copy(file->get(), own.path, 0, size); !done) return done;
  return zeros(tar_padding(size));
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
    ByteSink sink = [this](std::string_view bytes) -> Result<void> {
      while (!bytes.empty()) {
        const ssize_t wrote = ::write(write_.get(), bytes.data(), bytes.size());
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) return sys::from_errno("write pipe", errno);
        bytes.remove_prefix(static_cast<std::size_t>(wrote));
      }
      return {};
    };
    Result<void> done = fail(Code::Internal, "layer: out of memory");
    try {
      done = TreeWriter(root_.get(), kind, sink, Holes::Keep, false).run();
    } catch (const std::bad_alloc&) {
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
