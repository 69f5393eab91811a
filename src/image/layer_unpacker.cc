#include "image/layer_unpacker.h"

#include <archive.h>
#include <archive_entry.h>
#include <cerrno>
#include <filesystem>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <vector>

#include "image/tar_reader.h"
#include "sys/openat2.h"
#include "sys/syscall.h"
#include "sys/text_file.h"

namespace osb::image {

namespace {

constexpr std::string_view kWhiteout = ".wh.";
constexpr std::string_view kAufsPrefix = ".wh..wh.";
constexpr std::string_view kOpaque = ".wh..wh..opq";
constexpr std::string_view kDefaultAcl = "system.posix_acl_default";
constexpr std::size_t kMaxPath = 4095;
constexpr std::uint64_t kBlock = 4096;

struct Name {
  std::string parent;  // "" is the root
  std::string leaf;    // "" is the root itself
  std::string path() const { return parent.empty() ? leaf : parent + "/" + leaf; }
};

Failure refuse(std::string_view entry, std::string_view why) {
  return fail(Code::InvalidRequest, "layer entry '" + std::string(entry.substr(0, 200)) + "': " + std::string(why));
}

// A name as the layer wrote it, relative to the root and without "." and doubled slashes. Absolute names are meant so
// too: this is how image builders use them.
Result<Name> parse_name(std::string_view text) {
  Name out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('/', at), text.size());
    const std::string_view part = text.substr(at, end - at);
    at = end + 1;
    if (part.empty() || part == ".") continue;
    if (part == "..") return refuse(text, "'..' is not allowed");
    if (part.size() > 255 + (part.starts_with(kWhiteout) ? kWhiteout.size() : 0)) {
      return refuse(text, "a name is longer than 255 bytes");
    }
    if (!out.leaf.empty()) {
      if (!out.parent.empty()) out.parent += '/';
      out.parent += out.leaf;
    }
    out.leaf = part;
  }
  if (out.parent.size() + out.leaf.size() >= kMaxPath) return refuse(text, "the path is too long");
  return out;
}

bool is_whiteout(const struct stat& st) { return S_ISCHR(st.st_mode) && st.st_rdev == 0; }

class Unpacker {
 public:
  Unpacker(TarReader& reader, int root, const UnpackOptions& options)
      : reader_(reader), root_(root), options_(options) {}

  Result<void> run();
  std::uint64_t entries() const { return entries_; }
  std::uint64_t disk_bytes() const { return disk_bytes_; }

 private:
  Result<void> unpack(archive_entry* entry);
  Result<void> whiteout(const Name& name, std::string_view hidden);
  Result<void> directory(const Name& name, archive_entry* entry);
  Result<void> regular(const Name& name, archive_entry* entry);
  Result<void> hard_link(const Name& name, std::string_view target);
  // Symbolic links, pipes and device nodes.
  Result<void> special(const Name& name, archive_entry* entry);

  Result<int> parent_of(const Name& name);
  Result<UniqueFd> open_beneath(const std::string& path);
  Result<UniqueFd> make_parents(const std::string& path);
  // Calls `make` (0, or -1 and errno); where something of that name exists, removes it and calls again.
  template <typename F>
  Result<void> replace(const Name& name, int parent, F make);
  Result<void> remove(const Name& name, int parent);
  Result<void> mark_opaque(int directory, const std::string& path);

  Result<void> copy_data(const Name& name, int file, std::uint64_t size);
  void look_at_root();
  bool is_root_owned(archive_entry* entry) const;
  // Whether a file made with these permissions gets them without another call.
  bool is_made_with(mode_t mode) const { return (mode & (umask_ | 07000)) == 0; }
  Result<void> apply(const Name& name, int fd, archive_entry* entry, bool has_mode);
  Result<void> check_owner(const Name& name, archive_entry* entry) const;
  Result<void> set_attributes(const Name& name, int fd, archive_entry* entry);
  Result<void> finish_directories();

  static Failure call_failed(const char* call, const Name& name, int error = errno) {
    return sys::from_errno(std::string(call) + " " + name.path().substr(0, 200), error);
  }

  // What waits until everything is in place: new entries change a directory's time and inherit its default ACL.
  struct Later {
    std::string path;
    timespec times[2];
    std::string default_acl;
  };

  TarReader& reader_;
  const int root_;
  const UnpackOptions& options_;
  // Neighbours follow each other: the last parent, open. Empty path: none (the root needs none).
  std::string parent_path_;
  UniqueFd parent_;
  std::vector<Later> directories_;
  bool directory_removed_ = false;
  bool owner_inherited_ = true;  // new files may belong to somebody else than root
  mode_t umask_ = 0777;
  std::uint64_t entries_ = 0;
  std::uint64_t file_bytes_ = 0;
  std::uint64_t disk_bytes_ = 0;
};

// What new files and directories start with: those of root need no chown, common permissions no chmod.
void Unpacker::look_at_root() {
  struct stat st;
  if (::fstat(root_, &st) == 0 && ::geteuid() == 0 && ::getegid() == 0) {
    owner_inherited_ = st.st_gid != 0 || (st.st_mode & S_ISGID) != 0;
  }
  const auto status = sys::read_text("/proc/self/status");
  constexpr std::string_view kUmask = "\nUmask:\t";
  const std::size_t at = status ? status->find(kUmask) : std::string::npos;
  if (at != std::string::npos)
    umask_ = static_cast<mode_t>(std::strtoul(status->c_str() + at + kUmask.size(), nullptr, 8));
}

bool Unpacker::is_root_owned(archive_entry* entry) const {
  return !owner_inherited_ && archive_entry_uid(entry) == 0 && archive_entry_gid(entry) == 0;
}

Result<void> Unpacker::run() {
  look_at_root();
  for (;;) {
    const auto entry = reader_.next();
    if (!entry) return Failure(entry.error());
    if (*entry == nullptr) break;
    if (++entries_ > options_.max_entries) return fail(Code::TooLarge, "layer: too many entries");
    if (auto done = unpack(*entry); !done) return done;
  }
  return finish_directories();
}

Result<void> Unpacker::unpack(archive_entry* entry) {
  const char* text = archive_entry_pathname(entry);
  if (text == nullptr || *text == '\0') return fail(Code::InvalidRequest, "layer: an entry without a readable name");
  auto name = parse_name(text);
  if (!name) return Failure(name.error());
  if (name->leaf.starts_with(kWhiteout)) {
    return whiteout(*name, std::string_view(name->leaf).substr(kWhiteout.size()));
  }
  disk_bytes_ += kBlock;
  // Never null for a name that could not be read: then it is an empty one.
  if (const char* target = archive_entry_hardlink(entry)) return hard_link(*name, target);
  const auto type = archive_entry_filetype(entry);
  if (name->leaf.empty() && type != AE_IFDIR) return refuse(text, "the root must be a directory");
  if (type != AE_IFDIR && type != AE_IFREG) return special(*name, entry);
  if (auto owner = check_owner(*name, entry); !owner) return owner;
  return type == AE_IFDIR ? directory(*name, entry) : regular(*name, entry);
}

Result<UniqueFd> Unpacker::open_beneath(const std::string& path) {
  const int fd = sys::try_openat2(root_, path.empty() ? "." : path.c_str(), O_RDONLY | O_DIRECTORY,
                                  RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
  if (fd >= 0) return UniqueFd(fd);
  if (errno == ELOOP) return refuse(path, "a parent is a symbolic link");
  if (errno == ENOTDIR) return refuse(path, "a parent is not a directory");
  return sys::from_errno("open " + path.substr(0, 200), errno);
}

// Parents that the layer does not mention are ordinary directories of root.
Result<UniqueFd> Unpacker::make_parents(const std::string& path) {
  UniqueFd fd;
  for (std::size_t end = 0; end != std::string::npos;) {
    end = path.find('/', end + 1);
    const std::string prefix = path.substr(0, end);
    auto next = open_beneath(prefix);
    if (!next && next.error().sys_errno == ENOENT) {
      const std::string leaf = prefix.substr(prefix.rfind('/') + 1);
      const int parent = fd ? fd.get() : root_;
      if (::mkdirat(parent, leaf.c_str(), 0755) < 0 || ::fchmodat(parent, leaf.c_str(), 0755, 0) < 0) {
        return sys::from_errno("mkdir " + prefix.substr(0, 200), errno);
      }
      disk_bytes_ += kBlock;
      next = open_beneath(prefix);
    }
    if (!next) return next;
    fd = std::move(*next);
  }
  return fd;
}

Result<int> Unpacker::parent_of(const Name& name) {
  if (name.parent.empty()) return root_;
  if (name.parent != parent_path_ || !parent_) {
    auto fd = open_beneath(name.parent);
    if (!fd && fd.error().sys_errno == ENOENT) fd = make_parents(name.parent);
    if (!fd) return Failure(fd.error());
    parent_ = std::move(*fd);
    parent_path_ = name.parent;
  }
  return parent_.get();
}

Result<void> Unpacker::remove(const Name& name, int parent) {
  if (::unlinkat(parent, name.leaf.c_str(), 0) == 0) return {};
  if (errno != EISDIR) return call_failed("replace", name);
  directory_removed_ = true;
  parent_path_.clear();  // it may be one of those that go; the descriptor itself stays open for our caller
  std::error_code failed;
  std::filesystem::remove_all("/proc/self/fd/" + std::to_string(parent) + "/" + name.leaf, failed);
  if (failed) return call_failed("replace", name, failed.value());
  return {};
}

template <typename F>
Result<void> Unpacker::replace(const Name& name, int parent, F make) {
  if (make() == 0) return {};
  if (errno != EEXIST) return call_failed("create", name);
  if (auto removed = remove(name, parent); !removed) return removed;
  if (make() != 0) return call_failed("create", name);
  return {};
}

Result<void> Unpacker::mark_opaque(int directory, const std::string& path) {
  const bool trusted = options_.opaque == UnpackOptions::Opaque::Trusted;
  const char* attribute = trusted ? "trusted.overlay.opaque" : "user.overlay.opaque";
  if (::fsetxattr(directory, attribute, "y", 1, 0) < 0) {
    return sys::from_errno(std::string("set ") + attribute + " on /" + path.substr(0, 200), errno);
  }
  return {};
}

// A whiteout speaks about the layers below only: what this layer itself brings under that name stays, but no longer
// shows anything from below.
Result<void> Unpacker::whiteout(const Name& name, std::string_view hidden) {
  const auto parent = parent_of(name);
  if (!parent) return Failure(parent.error());
  if (name.leaf == kOpaque) return mark_opaque(*parent, name.parent);
  if (name.leaf.starts_with(kAufsPrefix)) return {};  // aufs' own book-keeping
  if (hidden.empty() || hidden == "." || hidden == "..") return refuse(name.path(), "hides no name");
  const Name target{name.parent, std::string(hidden)};
  disk_bytes_ += kBlock;
  if (::mknodat(*parent, target.leaf.c_str(), S_IFCHR, 0) == 0) return {};
  if (errno != EEXIST) return call_failed("whiteout", target);
  auto there = sys::open_at(*parent, target.leaf, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (!there) return {};
  return mark_opaque(there->get(), target.path());
}

Result<void> Unpacker::directory(const Name& name, archive_entry* entry) {
  const mode_t mode = archive_entry_perm(entry) & 07777;
  UniqueFd fd;
  bool opaque = false, made = false;
  if (name.leaf.empty()) {
    auto self = open_beneath("");
    if (!self) return Failure(self.error());
    fd = std::move(*self);
  } else {
    const auto parent = parent_of(name);
    if (!parent) return Failure(parent.error());
    const char* leaf = name.leaf.c_str();
    made = ::mkdirat(*parent, leaf, mode & 0777) == 0;
    if (!made) {
      struct stat st;
      if (errno != EEXIST) return call_failed("mkdir", name);
      if (::fstatat(*parent, leaf, &st, AT_SYMLINK_NOFOLLOW) < 0) return call_failed("stat", name);
      if (!S_ISDIR(st.st_mode)) {
        opaque = is_whiteout(st);
        if (auto removed = remove(name, *parent); !removed) return removed;
        if (::mkdirat(*parent, leaf, mode & 0777) < 0) return call_failed("mkdir", name);
        made = true;
      }
    }
    auto opened = sys::open_at(*parent, name.leaf, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (!opened) return Failure(opened.error());
    fd = std::move(*opened);
  }
  if (opaque) {
    if (auto marked = mark_opaque(fd.get(), name.path()); !marked) return marked;
  }
  if (auto done = apply(name, fd.get(), entry, made && is_made_with(mode)); !done) return done;
  if ((mode & S_ISGID) != 0 || archive_entry_gid(entry) != 0) owner_inherited_ = true;
  if (!name.leaf.empty()) {
    // Its entries come next.
    parent_ = std::move(fd);
    parent_path_ = name.path();
  }
  return {};
}

Result<void> Unpacker::regular(const Name& name, archive_entry* entry) {
  const auto parent = parent_of(name);
  if (!parent) return Failure(parent.error());
  const la_int64_t size = archive_entry_size(entry);
  if (size < 0 || static_cast<std::uint64_t>(size) > options_.max_bytes - file_bytes_) {
    return fail(Code::TooLarge, "layer entry '" + name.path().substr(0, 200) + "': the layer's files are larger than " +
                                    std::to_string(options_.max_bytes) + " bytes");
  }
  file_bytes_ += static_cast<std::uint64_t>(size);
  UniqueFd file;
  const mode_t mode = archive_entry_perm(entry) & 07777;
  auto made = replace(name, *parent, [&] {
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    file.reset(::openat(*parent, name.leaf.c_str(), flags, mode & 0777));
    return file ? 0 : -1;
  });
  if (!made) return made;
  if (size > 0) {
    if (auto copied = copy_data(name, file.get(), static_cast<std::uint64_t>(size)); !copied) return copied;
  }
  return apply(name, file.get(), entry, is_made_with(mode));
}

Result<void> Unpacker::copy_data(const Name& name, int file, std::uint64_t size) {
  std::uint64_t end = 0;
  for (;;) {
    const auto block = reader_.data();
    if (!block) return Failure(block.error());
    if (block->bytes.empty()) break;
    if (block->offset > size || block->bytes.size() > size - block->offset) {
      return refuse(name.path(), "data behind its end");
    }
    disk_bytes_ += (block->bytes.size() + kBlock - 1) / kBlock * kBlock;
    if (auto wrote = write_at(file, *block); !wrote) return with_context(name.path().substr(0, 200), wrote.error());
    end = std::max(end, block->offset + block->bytes.size());
  }
  if (end < size && ::ftruncate(file, static_cast<off_t>(size)) < 0) return call_failed("truncate", name);
  return {};
}

Result<void> Unpacker::hard_link(const Name& name, std::string_view text) {
  const auto target = parse_name(text);
  if (!target) return Failure(target.error());
  if (target->leaf.empty() || name.leaf.empty()) return refuse(name.path(), "a hard link to or in place of the root");
  if (target->path() == name.path()) return refuse(name.path(), "a hard link to itself");
  const auto from = open_beneath(target->parent);
  if (!from) return refuse(name.path(), "hard link to '" + target->path() + "', which is not in the layer");
  const auto parent = parent_of(name);
  if (!parent) return Failure(parent.error());
  auto linked = replace(name, *parent,
                        [&] { return ::linkat(from->get(), target->leaf.c_str(), *parent, name.leaf.c_str(), 0); });
  if (!linked && linked.error().sys_errno == ENOENT) {
    return refuse(name.path(), "hard link to '" + target->path() + "', which is not in the layer");
  }
  if (!linked && linked.error().sys_errno == EPERM) return refuse(name.path(), "hard link to a directory");
  return linked;
}

Result<void> Unpacker::special(const Name& name, archive_entry* entry) {
  const mode_t type = archive_entry_filetype(entry);
  dev_t device = 0;
  if (type == AE_IFCHR || type == AE_IFBLK) {
    if (options_.devices == UnpackOptions::Devices::Skip) return {};
    if (options_.devices == UnpackOptions::Devices::Refuse) return refuse(name.path(), "device nodes are not allowed");
    device = ::makedev(static_cast<unsigned>(archive_entry_rdevmajor(entry)),
                       static_cast<unsigned>(archive_entry_rdevminor(entry)));
    if (type == AE_IFCHR && device == 0) return refuse(name.path(), "a device that would be a whiteout");
  } else if (type != AE_IFLNK && type != AE_IFIFO) {
    return refuse(name.path(), "a kind of file that does not belong into a layer");
  }
  const char* target = type == AE_IFLNK ? archive_entry_symlink(entry) : nullptr;
  if (type == AE_IFLNK && (target == nullptr || *target == '\0')) return refuse(name.path(), "a link without target");
  if (auto owner = check_owner(name, entry); !owner) return owner;
  const auto parent = parent_of(name);
  if (!parent) return Failure(parent.error());
  const char* leaf = name.leaf.c_str();
  auto made = replace(name, *parent, [&] {
    return target != nullptr ? ::symlinkat(target, *parent, leaf) : ::mknodat(*parent, leaf, type | 0600, device);
  });
  if (!made) return made;
  const auto uid = static_cast<uid_t>(archive_entry_uid(entry));
  const auto gid = static_cast<gid_t>(archive_entry_gid(entry));
  if (!is_root_owned(entry) && ::fchownat(*parent, leaf, uid, gid, AT_SYMLINK_NOFOLLOW) < 0) {
    return call_failed("chown", name);
  }
  // Not a link, and nobody else is here: fchmodat can follow nothing.
  if (target == nullptr && ::fchmodat(*parent, leaf, archive_entry_perm(entry) & 07777, 0) < 0) {
    return call_failed("chmod", name);
  }
  const timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT},
                             {.tv_sec = archive_entry_mtime(entry), .tv_nsec = archive_entry_mtime_nsec(entry)}};
  if (::utimensat(*parent, leaf, times, AT_SYMLINK_NOFOLLOW) < 0) return call_failed("set the time of", name);
  return {};
}

Result<void> Unpacker::check_owner(const Name& name, archive_entry* entry) const {
  for (const la_int64_t id : {archive_entry_uid(entry), archive_entry_gid(entry)}) {
    if (id < 0 || id > options_.max_id) {
      return refuse(name.path(), "belongs to id " + std::to_string(id) + ", above " + std::to_string(options_.max_id));
    }
  }
  return {};
}

// The order matters: chown clears setuid bits and capabilities.
Result<void> Unpacker::apply(const Name& name, int fd, archive_entry* entry, bool has_mode) {
  const auto uid = static_cast<uid_t>(archive_entry_uid(entry));
  const auto gid = static_cast<gid_t>(archive_entry_gid(entry));
  const bool directory = archive_entry_filetype(entry) == AE_IFDIR;
  // A directory may have been there before.
  if ((directory || !is_root_owned(entry)) && ::fchown(fd, uid, gid) < 0) return call_failed("chown", name);
  if (!has_mode && ::fchmod(fd, archive_entry_perm(entry) & 07777) < 0) return call_failed("chmod", name);
  const timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT},
                             {.tv_sec = archive_entry_mtime(entry), .tv_nsec = archive_entry_mtime_nsec(entry)}};
  if (directory) directories_.push_back({name.path(), {times[0], times[1]}, {}});
  if (archive_entry_xattr_count(entry) > 0) {
    if (auto set = set_attributes(name, fd, entry); !set) return set;
  }
  if (!directory && ::futimens(fd, times) < 0) return call_failed("set the time of", name);
  return {};
}

Result<void> Unpacker::set_attributes(const Name& name, int fd, archive_entry* entry) {
  const char* key = nullptr;
  const void* value = nullptr;
  std::size_t size = 0;
  archive_entry_xattr_reset(entry);
  while (archive_entry_xattr_next(entry, &key, &value, &size) == ARCHIVE_OK) {
    if (key == nullptr) continue;
    const std::string_view attribute(key);
    const bool capability = attribute == "security.capability";
    const bool user = attribute.starts_with("user.") && !attribute.starts_with("user.overlay.");
    const bool acl = attribute == "system.posix_acl_access" || attribute == kDefaultAcl;
    if (!capability && !user && !acl) continue;
    if (attribute == kDefaultAcl && archive_entry_filetype(entry) == AE_IFDIR) {
      directories_.back().default_acl.assign(static_cast<const char*>(value), size);
      continue;
    }
    if (::fsetxattr(fd, key, value, size, 0) == 0) continue;
    if (!capability && errno == ENOTSUP) continue;  // a file system without them
    if (errno == EINVAL || errno == ERANGE || errno == E2BIG)
      return refuse(name.path(), "invalid " + std::string(attribute));
    return call_failed(capability ? "set security.capability of" : "set an attribute of", name);
  }
  return {};
}

Result<void> Unpacker::finish_directories() {
  for (const Later& directory : directories_) {
    const std::string path = directory.path.empty() ? "." : directory.path;
    if (!directory_removed_ && directory.default_acl.empty()) {
      // All are still there, so that no part of the path can be a link.
      if (::utimensat(root_, path.c_str(), directory.times, AT_SYMLINK_NOFOLLOW) == 0) continue;
      return sys::from_errno("set the time of " + path, errno);
    }
    const auto fd = open_beneath(directory.path);
    if (!fd) continue;  // a later entry has replaced it
    const std::string& acl = directory.default_acl;
    if (!acl.empty() && ::fsetxattr(fd->get(), kDefaultAcl.data(), acl.data(), acl.size(), 0) < 0 && errno != ENOTSUP) {
      if (errno == EINVAL) return refuse(path, "invalid " + std::string(kDefaultAcl));
      return sys::from_errno("set the ACL of " + path, errno);
    }
    if (::futimens(fd->get(), directory.times) < 0) return sys::from_errno("set the time of " + path, errno);
  }
  return {};
}

Result<void> compare(const char* what, const std::optional<Digest>& wanted, const Digest& is) {
  if (!wanted || *wanted == is) return {};
  return fail(Code::InvalidRequest,
              std::string("layer: its ") + what + " is " + is.to_string() + ", expected " + wanted->to_string());
}

}  // namespace

Result<UnpackedLayer> unpack_layer(ByteSource source, int root, const UnpackOptions& options) {
  TarReader reader("layer", std::move(source), options.max_bytes);
  Unpacker unpacker(reader, root, options);
  if (auto done = unpacker.run(); !done) return Failure(done.error());
  const LayerStream::Sums sums = reader.sums();
  if (auto same = compare("digest", options.digest, sums.compressed); !same) return Failure(same.error());
  if (auto same = compare("diff id", options.diff_id, sums.uncompressed); !same) return Failure(same.error());
  return UnpackedLayer{sums.compressed, sums.uncompressed, unpacker.entries(), unpacker.disk_bytes()};
}

}  // namespace osb::image
