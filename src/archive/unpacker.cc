#include "archive/unpacker.h"

#include <atomic>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/concat.h"
#include "base/json_escape.h"
#include "sys/openat2.h"
#include "sys/remove_tree.h"
#include "sys/syscall.h"
#include "sys/text_file.h"
#include "sys/write_all.h"

namespace osb::archive {
namespace {

constexpr int kDirectoryFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
constexpr std::uint64_t kDiskBlock = 4096;
constexpr std::string_view kDefaultAcl = "system.posix_acl_default";
constexpr auto kNoUser = static_cast<uid_t>(-1);
constexpr auto kNoGroup = static_cast<gid_t>(-1);

// One call where the kernel has it. EXDEV and ELOOP mean: through a symlink, or out of `root`.
int open_beneath(int root, const char* path) {
  static std::atomic<bool> missing = false;  // an old kernel, or a seccomp filter that does not know the call
  if (missing) {
    errno = ENOSYS;
    return -1;
  }
  const int fd = sys::try_openat2(root, path, kDirectoryFlags, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
  if (fd < 0 && (errno == ENOSYS || errno == EPERM)) missing = true;
  return fd;
}

bool is_kept(std::string_view attribute) {
  if (attribute.starts_with("user.")) return !attribute.starts_with("user.overlay.");
  return attribute == "security.capability" || attribute == "system.posix_acl_access" || attribute == kDefaultAcl;
}

mode_t read_umask() {
  const auto status = sys::read_text("/proc/self/status");
  constexpr std::string_view kUmask = "\nUmask:\t";
  const std::size_t at = status ? status->find(kUmask) : std::string::npos;
  if (at == std::string::npos) return 0777;
  return static_cast<mode_t>(std::strtoul(status->c_str() + at + kUmask.size(), nullptr, 8));
}

Failure failed(std::string_view call, std::string_view path) {
  const int error = errno;
  return sys::from_errno(concat(call, " ", in_quotes(path, 200)), error);
}

}  // namespace

Unpacker::Unpacker(UniqueFd root, UnpackRules rules) : root_(std::move(root)), rules_(std::move(rules)) {
  if (shared()) return;
  struct stat st;
  new_files_are_roots_ = ::geteuid() == 0 && ::getegid() == 0 && ::fstat(root_.get(), &st) == 0 && st.st_uid == 0 &&
                         st.st_gid == 0 && (st.st_mode & S_ISGID) == 0;
  umask_ = read_umask();
}

Result<EntryName> Unpacker::name_of(const TarEntry& entry) const {
  auto name = parse_entry_name(entry.path, rules_.names);
  if (!name) return refused(entry.path, name.error().message);
  return name;
}

Result<Unpacker::Attributes> Unpacker::attributes_of(const TarEntry& entry) const {
  Attributes out;
  out.mode = entry.mode & rules_.mode_mask;
  out.mtime = entry.mtime;
  if (rules_.attributes) {
    for (const auto& attribute : entry.attributes) {
      if (is_kept(attribute.first)) out.attributes.push_back(attribute);
    }
  }
  if (rules_.owners == UnpackRules::Owners::Ignore) return out;
  if (rules_.owners == UnpackRules::Owners::Attempt) {
    if (!entry.owner.empty() && rules_.user_id) out.uid = rules_.user_id(entry.owner);
    if (!entry.group.empty() && rules_.group_id) out.gid = rules_.group_id(entry.group);
  } else if (const std::uint64_t id = std::max(entry.uid, entry.gid); id > rules_.max_id) {
    return refused(entry.path, concat("belongs to id ", id, ", above ", rules_.max_id));
  }
  if (!out.uid && entry.uid < kNoUser) out.uid = static_cast<uid_t>(entry.uid);
  if (!out.gid && entry.gid < kNoGroup) out.gid = static_cast<gid_t>(entry.gid);
  if (new_files_are_roots_ && out.uid == 0u && out.gid == 0u) out.uid = out.gid = std::nullopt;
  return out;
}

// Component by component, never through a symlink; missing directories are made if wanted.
Result<UniqueFd> Unpacker::open_directory(const std::string& path, bool create) {
  if (const int fd = open_beneath(root_.get(), path.empty() ? "." : path.c_str()); fd >= 0) return UniqueFd(fd);
  if (errno == EMFILE || errno == ENFILE) return failed("open", path);
  auto current = sys::open_at(root_.get(), ".", kDirectoryFlags);
  for (std::string_view rest = path; current && !rest.empty();) {
    const std::size_t slash = rest.find('/');
    const std::string part(rest.substr(0, slash));
    rest.remove_prefix(slash == std::string_view::npos ? rest.size() : slash + 1);
    int fd = ::openat(current->get(), part.c_str(), kDirectoryFlags);
    if (fd < 0 && errno == ENOENT && create) {
      if (::mkdirat(current->get(), part.c_str(), rules_.parent_mode) == 0) {
        disk_bytes_ += kDiskBlock;
        if (!shared() && ::fchmodat(current->get(), part.c_str(), rules_.parent_mode, 0) < 0)
          return failed("chmod", path);
      } else if (errno != EEXIST) {
        return failed("mkdir", path);
      }
      fd = ::openat(current->get(), part.c_str(), kDirectoryFlags);
    }
    if (fd < 0 && (errno == ELOOP || errno == ENOTDIR)) {
      struct stat st;
      const bool link = ::fstatat(current->get(), part.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode);
      return refused(path, in_quotes(part, 200) + (link ? " is a symbolic link" : " is not a directory"));
    }
    if (fd < 0) return failed("open", path);
    current->reset(fd);
  }
  return current;
}

Result<int> Unpacker::enter_parent_of(const EntryName& name) {
  if (name.parent.empty()) return root_.get();
  if (!parent_ || name.parent != parent_path_) {
    auto opened = open_directory(name.parent, true);
    if (!opened) return Failure(opened.error());
    parent_ = std::move(*opened);
    parent_path_ = name.parent;
  }
  return parent_.get();
}

Result<void> Unpacker::remove(const EntryName& name, int parent) {
  if (::unlinkat(parent, name.leaf.c_str(), 0) == 0) return {};
  if (errno != EISDIR) return failed("replace", name.path());
  const std::string path = name.path(), below = path + "/";
  directories_.erase(path);
  for (auto it = directories_.lower_bound(below); it != directories_.end() && it->first.starts_with(below);) {
    it = directories_.erase(it);
  }
  parent_path_.clear();  // it may be one of those that go; the descriptor itself stays open for our caller
  if (auto gone = sys::remove_tree(parent, name.leaf); !gone) return with_context("replace " + path, gone.error());
  return {};
}

template <typename Make>
Result<void> Unpacker::make_or_replace(const EntryName& name, int parent, Make make) {
  if (make(name.leaf.c_str()) == 0) return {};
  if (errno != EEXIST) return failed("create", name.path());
  if (auto removed = remove(name, parent); !removed) return removed;
  if (make(name.leaf.c_str()) != 0) return failed("create", name.path());
  return {};
}

template <typename Make, typename Dress>
Result<void> Unpacker::place(const EntryName& name, int parent, Make make, Dress dress, bool is_hard_link) {
  if (!shared()) {
    if (auto made = make_or_replace(name, parent, make); !made) return made;
    return dress(name.leaf.c_str());
  }
  const std::string hidden = sys::hidden_name();
  if (make(hidden.c_str()) < 0) return failed("create", name.path());
  Result<void> done = dress(hidden.c_str());
  if (done && ::renameat(parent, hidden.c_str(), parent, name.leaf.c_str()) < 0)
    done = failed("rename to", name.path());
  // Rename does nothing when both are names of one file: a hard link repeated. The hidden one is still there then.
  if (!done || is_hard_link) ::unlinkat(parent, hidden.c_str(), 0);
  return done;
}

Result<void> Unpacker::make_hard_link(const EntryName& name, const TarEntry& entry) {
  const auto target = parse_entry_name(entry.link, rules_.names);
  if (!target) return refused(entry.path, "hard link: " + target.error().message);
  if (target->leaf.empty()) return refused(entry.path, "a hard link to the root");
  if (target->path() == name.path()) return refused(entry.path, "a hard link to itself");
  const std::string missing =
      concat("hard link to ", in_quotes(target->path(), 200), ", which is not in the ", rules_.what);
  auto from = open_directory(target->parent, false);
  if (!from) return refused(entry.path, missing);
  const auto parent = enter_parent_of(name);
  if (!parent) return Failure(parent.error());
  auto linked = place(
      name, *parent, [&](const char* leaf) { return ::linkat(from->get(), target->leaf.c_str(), *parent, leaf, 0); },
      [](const char*) { return Result<void>(); }, true);
  if (linked) return linked;
  if (linked.error().sys_errno == ENOENT) return refused(entry.path, missing);
  if (linked.error().sys_errno == EPERM && !shared()) return refused(entry.path, "hard link to a directory");
  return linked;
}

// Symbolic links, fifos and devices.
Result<void> Unpacker::make_special(const EntryName& name, const TarEntry& entry) {
  const bool link = entry.type == TarEntry::Type::Symlink, fifo = entry.type == TarEntry::Type::Fifo;
  const auto special = fifo ? rules_.fifos : rules_.devices;
  if (!link && special == UnpackRules::Special::Skip) return {};
  if (!link && special == UnpackRules::Special::Refuse) {
    return refused(entry.path, fifo ? "pipes are not allowed" : "device nodes are not allowed");
  }
  if (link && entry.link.empty()) return refused(entry.path, "a link without target");
  const auto attributes = attributes_of(entry);
  if (!attributes) return Failure(attributes.error());
  const auto parent = enter_parent_of(name);
  if (!parent) return Failure(parent.error());
  const mode_t kind = fifo ? S_IFIFO : entry.type == TarEntry::Type::CharDevice ? S_IFCHR : S_IFBLK;
  const auto make = [&](const char* leaf) {
    if (link) return ::symlinkat(entry.link.c_str(), *parent, leaf);
    return ::mknodat(*parent, leaf, kind | 0600, fifo ? 0 : ::makedev(entry.major, entry.minor));
  };
  return place(name, *parent, make, [&](const char* leaf) -> Result<void> {
    if (attributes->uid || attributes->gid) {
      const int done = ::fchownat(*parent, leaf, attributes->uid.value_or(kNoUser), attributes->gid.value_or(kNoGroup),
                                  AT_SYMLINK_NOFOLLOW);
      if (auto ok = give_owner(done, name); !ok) return ok;
    }
    // Not a link: fchmodat follows nothing.
    if (!link && ::fchmodat(*parent, leaf, attributes->mode, 0) < 0) return failed("chmod", name.path());
    const timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT}, attributes->mtime};
    if (::utimensat(*parent, leaf, times, AT_SYMLINK_NOFOLLOW) < 0) return failed("set the time of", name.path());
    return {};
  });
}

Result<void> Unpacker::make_directory(const EntryName& name, const TarEntry& entry) {
  auto attributes = attributes_of(entry);
  if (!attributes) return Failure(attributes.error());
  if (!name.leaf.empty()) {
    const auto parent = enter_parent_of(name);
    if (!parent) return Failure(parent.error());
    // Only execd's user may enter it until it gets its mode: other users do not see a half-made tree.
    const auto make = [&](const char* leaf) { return ::mkdirat(*parent, leaf, 0700); };
    if (make(name.leaf.c_str()) < 0) {
      struct stat st;
      if (errno != EEXIST) return failed("mkdir", name.path());
      if (::fstatat(*parent, name.leaf.c_str(), &st, AT_SYMLINK_NOFOLLOW) < 0) return failed("stat", name.path());
      if (!S_ISDIR(st.st_mode)) {
        if (shared()) return refused(entry.path, "something that is not a directory is in its place");
        if (auto made = make_or_replace(name, *parent, make); !made) return made;
      }
    }
  }
  directories_.insert_or_assign(name.path(), std::move(*attributes));
  return {};
}

Result<void> Unpacker::begin_file(EntryName name, const TarEntry& entry) {
  if (entry.size > rules_.max_bytes - total_bytes_) {
    auto error =
        refused(entry.path, concat("the ", rules_.what, "'s files are larger than ", rules_.max_bytes, " bytes"));
    error.error().code = Code::TooLarge;
    return error;
  }
  total_bytes_ += entry.size;
  auto attributes = attributes_of(entry);
  if (!attributes) return Failure(attributes.error());
  const auto parent = enter_parent_of(name);
  if (!parent) return Failure(parent.error());
  if (shared()) {
    auto file = sys::StagedFile::create(*parent);
    if (!file) return with_context(name.path(), file.error());
    staged_.emplace(std::move(*file));
  } else {
    auto made = make_or_replace(name, *parent, [&](const char* leaf) {
      const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
      file_.reset(::openat(*parent, leaf, flags, attributes->mode & 0777));
      return file_ ? 0 : -1;
    });
    if (!made) return made;
  }
  file_name_ = std::move(name);
  file_attributes_ = std::move(*attributes);
  file_size_ = entry.size;
  file_end_ = file_bytes_ = 0;
  return {};
}

Result<void> Unpacker::begin(const TarEntry& entry) {
  if (++entries_ > rules_.max_entries) return fail(Code::TooLarge, rules_.what + ": too many entries");
  auto name = name_of(entry);
  if (!name) return Failure(name.error());
  disk_bytes_ += kDiskBlock;
  if (entry.type == TarEntry::Type::Directory) return make_directory(*name, entry);
  if (name->leaf.empty()) return refused(entry.path, "the root must be a directory");
  if (entry.type == TarEntry::Type::File) return begin_file(std::move(*name), entry);
  if (entry.type == TarEntry::Type::HardLink) return make_hard_link(*name, entry);
  return make_special(*name, entry);
}

Result<void> Unpacker::data(std::uint64_t offset, std::string_view bytes) {
  const int fd = staged_ ? staged_->fd() : file_.get();
  if (fd < 0) return {};
  file_end_ = offset + bytes.size();
  file_bytes_ += bytes.size();
  return sys::write_all_at(fd, offset, bytes, file_name_.leaf);
}

Result<void> Unpacker::give_owner(int done, const EntryName& name) const {
  if (done == 0) return {};
  const bool optional = rules_.owners == UnpackRules::Owners::Attempt && (errno == EPERM || errno == EINVAL);
  return optional ? Result<void>() : failed("chown", name.path());
}

Result<void> Unpacker::dress(int fd, const Attributes& attributes, const EntryName& name, bool has_mode) const {
  if (attributes.uid || attributes.gid) {
    const int done = ::fchown(fd, attributes.uid.value_or(kNoUser), attributes.gid.value_or(kNoGroup));
    if (auto ok = give_owner(done, name); !ok) return ok;
  }
  if (!has_mode && ::fchmod(fd, attributes.mode) < 0) return failed("chmod", name.path());
  for (const auto& [attribute, value] : attributes.attributes) {
    if (::fsetxattr(fd, attribute.c_str(), value.data(), value.size(), 0) == 0) continue;
    // Some file systems have no attributes; only a missing capability changes what the program can do.
    if (attribute != "security.capability" && errno == ENOTSUP) continue;
    if (errno == EINVAL || errno == ERANGE || errno == E2BIG) return refused(name.path(), "invalid " + attribute);
    return failed("set " + attribute + " of", name.path());
  }
  const timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT}, attributes.mtime};
  if (::futimens(fd, times) < 0) return failed("set the time of", name.path());
  return {};
}

Result<void> Unpacker::end() {
  if (!staged_ && !file_) return {};
  auto staged = std::exchange(staged_, std::nullopt);
  const UniqueFd file = std::move(file_);
  const int fd = staged ? staged->fd() : file.get();
  disk_bytes_ += (file_bytes_ + kDiskBlock - 1) / kDiskBlock * kDiskBlock;
  // A hole at the end has not been written.
  if (file_end_ < file_size_ && ::ftruncate(fd, static_cast<off_t>(file_size_)) < 0) {
    return failed("truncate", file_name_.path());
  }
  const bool has_mode = !staged && (file_attributes_.mode & (umask_ | 07000)) == 0;
  if (auto ok = dress(fd, file_attributes_, file_name_, has_mode); !ok || !staged) return ok;
  const auto parent = enter_parent_of(file_name_);
  if (!parent) return Failure(parent.error());
  return staged->place(*parent, file_name_.leaf);
}

Result<void> Unpacker::finish() {
  // Children before parents: a parent's mode may lock us out, and touching a child changes its parent's time.
  for (auto it = directories_.rbegin(); it != directories_.rend(); ++it) {
    auto directory = open_directory(it->first, false);
    if (!directory) return Failure(directory.error());
    if (auto ok = dress(directory->get(), it->second, {.parent = {}, .leaf = it->first}, false); !ok) return ok;
  }
  directories_.clear();
  return {};
}

}  // namespace osb::archive
