#include "execd/file/unpack.h"

#include <atomic>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json_escape.h"
#include "execd/file/path.h"
#include "sys/openat2.h"
#include "sys/syscall.h"

namespace osb::execd {
namespace {

constexpr int kDirectoryFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;

Failure refused(const std::string& path, std::string_view why) {
  return fail(Code::InvalidRequest, "archive entry " + in_quotes(path) + ": " + std::string(why));
}

// The path within the target: no "." and no repeated slashes; empty for the target itself.
Result<std::string> entry_path(const std::string& path) {
  if (path.starts_with('/')) return refused(path, "absolute path");
  std::string clean;
  for (std::string_view rest = path; !rest.empty();) {
    const std::size_t slash = rest.find('/');
    const std::string_view part = rest.substr(0, slash);
    rest.remove_prefix(slash == std::string_view::npos ? rest.size() : slash + 1);
    if (part.empty() || part == ".") continue;
    if (part == "..") return refused(path, "leads out of the directory");
    if (!clean.empty()) clean += '/';
    clean += part;
  }
  return clean;
}

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

bool may_not_own(int error) { return error == EPERM || error == EINVAL; }

}  // namespace

Unpacker::Attributes Unpacker::attributes_of(const TarEntry& entry) const {
  Attributes out;
  if (!entry.owner.empty()) out.uid = names_.user(entry.owner);
  if (!out.uid && entry.uid < UINT32_MAX) out.uid = static_cast<uid_t>(entry.uid);
  if (!entry.group.empty()) out.gid = names_.group(entry.group);
  if (!out.gid && entry.gid < UINT32_MAX) out.gid = static_cast<gid_t>(entry.gid);
  out.mode = entry.mode;
  out.mtime = entry.mtime;
  return out;
}

// Component by component, never through a symlink; missing directories are made if wanted.
Result<UniqueFd> Unpacker::open_directory(const std::string& path, bool create) const {
  if (const int fd = open_beneath(root_.get(), path.empty() ? "." : path.c_str()); fd >= 0) return UniqueFd(fd);
  if (errno == EMFILE || errno == ENFILE) return sys::from_errno("open " + path, errno);
  auto current = sys::open_at(root_.get(), ".", kDirectoryFlags);
  for (std::string_view rest = path; current && !rest.empty();) {
    const std::size_t slash = rest.find('/');
    const std::string part(rest.substr(0, slash));
    rest.remove_prefix(slash == std::string_view::npos ? rest.size() : slash + 1);
    int fd = ::openat(current->get(), part.c_str(), kDirectoryFlags);
    if (fd < 0 && errno == ENOENT && create) {
      if (::mkdirat(current->get(), part.c_str(), 0755) < 0 && errno != EEXIST) {
        return sys::from_errno("mkdir " + path, errno);
      }
      fd = ::openat(current->get(), part.c_str(), kDirectoryFlags);
    }
    if (fd < 0 && (errno == ELOOP || errno == ENOTDIR)) return refused(path, part + " is not a directory");
    if (fd < 0) return sys::from_errno("open " + path, errno);
    current->reset(fd);
  }
  return current;
}

Result<std::string> Unpacker::enter_parent_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string parent = slash == std::string::npos ? "" : path.substr(0, slash);
  if (!parent_ || parent != parent_path_) {
    auto opened = open_directory(parent, true);
    if (!opened) return Failure(opened.error());
    parent_ = std::move(*opened);
    parent_path_ = parent;
  }
  return path.substr(slash + 1);
}

template <typename Make>
Result<void> Unpacker::make_node(const std::string& name, const TarEntry& entry, Make make) {
  const Attributes attributes = attributes_of(entry);
  const std::string hidden = hidden_name();
  const auto undo = [&](const char* what) {
    const int error = errno;
    ::unlinkat(parent_.get(), hidden.c_str(), 0);
    return sys::from_errno(std::string(what) + " " + entry.path, error);
  };
  if (make(hidden.c_str()) < 0) return sys::from_errno("make " + entry.path, errno);
  const uid_t uid = attributes.uid.value_or(static_cast<uid_t>(-1));
  const gid_t gid = attributes.gid.value_or(static_cast<gid_t>(-1));
  if (entry.type != TarEntry::Type::HardLink) {
    if (::fchownat(parent_.get(), hidden.c_str(), uid, gid, AT_SYMLINK_NOFOLLOW) < 0 && !may_not_own(errno)) {
      return undo("chown");
    }
    if (entry.type == TarEntry::Type::Fifo && ::fchmodat(parent_.get(), hidden.c_str(), attributes.mode, 0) < 0) {
      return undo("chmod");
    }
    const timespec times[2] = {attributes.mtime, attributes.mtime};
    if (::utimensat(parent_.get(), hidden.c_str(), times, AT_SYMLINK_NOFOLLOW) < 0) return undo("set time of");
  }
  if (::renameat(parent_.get(), hidden.c_str(), parent_.get(), name.c_str()) < 0) return undo("rename to");
  // Two names of one file: rename did nothing, and the hidden one is still there.
  if (entry.type == TarEntry::Type::HardLink) ::unlinkat(parent_.get(), hidden.c_str(), 0);
  return {};
}

Result<void> Unpacker::make_hard_link(const std::string& name, const TarEntry& entry) {
  auto target = entry_path(entry.link);
  if (!target) return Failure(target.error());
  if (target->empty()) return refused(entry.path, "links to the directory itself");
  const std::size_t slash = target->rfind('/');
  auto directory = open_directory(slash == std::string::npos ? "" : target->substr(0, slash), false);
  if (!directory) return with_context("link " + entry.path, directory.error());
  const std::string target_name = target->substr(slash + 1);
  return make_node(name, entry, [&](const char* hidden) {
    return ::linkat(directory->get(), target_name.c_str(), parent_.get(), hidden, 0);
  });
}

Result<void> Unpacker::make_directory(const std::string& path, const TarEntry& entry) {
  if (!path.empty()) {
    auto name = enter_parent_of(path);
    if (!name) return Failure(name.error());
    // Ours alone until it gets its mode: nobody looks into a tree that is half there.
    if (::mkdirat(parent_.get(), name->c_str(), 0700) < 0) {
      if (errno != EEXIST) return sys::from_errno("mkdir " + path, errno);
      struct stat st;
      if (::fstatat(parent_.get(), name->c_str(), &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return sys::from_errno("stat " + path, errno);
      }
      if (!S_ISDIR(st.st_mode)) return refused(path, "something that is not a directory is in its place");
    }
  }
  directories_.push_back({path, attributes_of(entry)});
  return {};
}

Result<void> Unpacker::begin(const TarEntry& entry) {
  auto path = entry_path(entry.path);
  if (!path) return Failure(path.error());
  if (entry.type == TarEntry::Type::Directory) return make_directory(*path, entry);
  if (path->empty()) return refused(entry.path, "no name");
  auto name = enter_parent_of(*path);
  if (!name) return Failure(name.error());
  switch (entry.type) {
    case TarEntry::Type::Symlink:
      return make_node(*name, entry,
                       [&](const char* hidden) { return ::symlinkat(entry.link.c_str(), parent_.get(), hidden); });
    case TarEntry::Type::HardLink:
      return make_hard_link(*name, entry);
    case TarEntry::Type::Fifo:
      return make_node(*name, entry, [&](const char* hidden) { return ::mkfifoat(parent_.get(), hidden, 0600); });
    case TarEntry::Type::CharDevice:
    case TarEntry::Type::BlockDevice:
      return refused(entry.path, "devices are not unpacked");
    default:
      break;
  }
  auto file = StagedFile::create(parent_.get());
  if (!file) return with_context(*path, file.error());
  file_.emplace(std::move(*file));
  file_name_ = *name;
  file_size_ = entry.size;
  file_attributes_ = attributes_of(entry);
  return {};
}

Result<void> Unpacker::data(std::uint64_t offset, std::string_view bytes) {
  while (file_ && !bytes.empty()) {
    const ssize_t n = ::pwrite(file_->fd(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return sys::from_errno("write " + file_name_, errno);
    bytes.remove_prefix(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
  return {};
}

Result<void> Unpacker::end() {
  if (!file_) return {};
  StagedFile file = std::move(*file_);
  file_.reset();
  const Attributes& attributes = file_attributes_;
  const int fd = file.fd();
  // A hole at the end has not been written.
  if (::ftruncate(fd, static_cast<off_t>(file_size_)) < 0) return sys::from_errno("truncate " + file_name_, errno);
  const uid_t uid = attributes.uid.value_or(static_cast<uid_t>(-1));
  const gid_t gid = attributes.gid.value_or(static_cast<gid_t>(-1));
  if (::fchown(fd, uid, gid) < 0 && !may_not_own(errno)) return sys::from_errno("chown " + file_name_, errno);
  if (::fchmod(fd, attributes.mode) < 0) return sys::from_errno("chmod " + file_name_, errno);
  const timespec times[2] = {attributes.mtime, attributes.mtime};
  if (::futimens(fd, times) < 0) return sys::from_errno("set time of " + file_name_, errno);
  return file.place(parent_.get(), file_name_);
}

Result<void> Unpacker::finish() {
  // Children before parents: a parent's mode may lock us out, and touching a child changes its parent's time.
  for (auto it = directories_.rbegin(); it != directories_.rend(); ++it) {
    auto directory = open_directory(it->path, false);
    if (!directory) return Failure(directory.error());
    const Attributes& attributes = it->attributes;
    const uid_t uid = attributes.uid.value_or(static_cast<uid_t>(-1));
    const gid_t gid = attributes.gid.value_or(static_cast<gid_t>(-1));
    if (::fchown(directory->get(), uid, gid) < 0 && !may_not_own(errno)) {
      return sys::from_errno("chown " + it->path, errno);
    }
    if (::fchmod(directory->get(), attributes.mode) < 0) return sys::from_errno("chmod " + it->path, errno);
    const timespec times[2] = {attributes.mtime, attributes.mtime};
    if (::futimens(directory->get(), times) < 0) return sys::from_errno("set time of " + it->path, errno);
  }
  return {};
}

}  // namespace osb::execd
