#include "execd/file/content/file_replacement.h"

#include <algorithm>
#include <cstdlib>
#include <fcntl.h>
#include <linux/limits.h>
#include <memory>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "execd/path/path.h"
#include "sys/syscall.h"
#include "sys/write_all.h"

namespace osb::execd {
namespace {

// Follows the links of the last component as the kernel would, also when the last one leads nowhere.
Result<std::string> follow_links(std::string path) {
  for (int hops = 0; hops < 40; ++hops) {
    char target[PATH_MAX];
    const ssize_t n = ::readlink(path.c_str(), target, sizeof target);
    if (n < 0) return path;  // no link, or nothing there: the next call will tell
    std::string next(target, static_cast<std::size_t>(n));
    if (!next.starts_with('/')) next = std::string(parent_of(path)) + "/" + next;
    path = std::move(next);
  }
  return sys::from_errno("open " + path, ELOOP);
}

// The directory itself or, if it is still to be made, the nearest one above: the same file system.
Result<UniqueFd> open_existing_parent(std::string path) {
  for (;;) {
    path = parent_of(path);
    auto directory = sys::open_at(AT_FDCWD, path, O_PATH | O_DIRECTORY);
    if (directory || directory.error().sys_errno != ENOENT || path == "/") return directory;
  }
}

bool is_directory_name(std::string_view path) {
  const std::string_view name = base_name(path);
  return name.empty() || name == "." || name == "..";
}

// ACLs and what users have attached. Security labels and capabilities belong to the old contents.
void copy_attributes(int from, int to) {
  char names[4096];
  const ssize_t size = ::flistxattr(from, names, sizeof names);
  for (ssize_t at = 0; at < size;) {
    const std::string_view name = names + at;
    at += static_cast<ssize_t>(name.size()) + 1;
    if (!name.starts_with("user.") && name != "system.posix_acl_access") continue;
    const ssize_t length = ::fgetxattr(from, name.data(), nullptr, 0);
    if (length < 0) continue;
    const auto value = std::make_unique<char[]>(static_cast<std::size_t>(length) + 1);
    const ssize_t got = ::fgetxattr(from, name.data(), value.get(), static_cast<std::size_t>(length));
    if (got >= 0) ::fsetxattr(to, name.data(), value.get(), static_cast<std::size_t>(got), 0);
  }
}

// Makes the staged file look like the old one. False: we may not.
bool inherit(int staged, const std::string& old_path, const struct stat& old) {
  struct stat fresh;
  if (::fstat(staged, &fresh) < 0) return false;
  if ((fresh.st_uid != old.st_uid || fresh.st_gid != old.st_gid) && ::fchown(staged, old.st_uid, old.st_gid) < 0) {
    return false;
  }
  if (::fchmod(staged, old.st_mode & 07777) < 0) return false;
  if (auto file = sys::open_at(AT_FDCWD, old_path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)) {
    copy_attributes(file->get(), staged);
  }
  return true;
}

bool rename_cannot_work(int error) {
  return error == EBUSY || error == EXDEV || error == EPERM || error == EACCES || error == EROFS;
}

}  // namespace

Result<void> sync_directory(const std::string& path) {
  auto directory = sys::open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY);
  if (directory && ::fsync(directory->get()) < 0) return sys::from_errno("sync " + path, errno);
  return {};
}

std::string temporary_directory() {
  const char* wanted = std::getenv("TMPDIR");
  return wanted != nullptr && *wanted == '/' ? wanted : "/tmp";
}

Result<void> copy_contents(int from, int to, std::uint64_t length) {
  off_t in = 0, out = 0;
  const auto left = [&](std::size_t at_most) {
    return static_cast<std::size_t>(std::min<std::uint64_t>(at_most, length - static_cast<std::uint64_t>(in)));
  };
  while (left(1) > 0) {
    const ssize_t n = ::copy_file_range(from, &in, to, &out, left(1 << 30), 0);
    // Also what some special file systems say when they do not support it.
    if (n == 0 && in == 0) break;
    if (n == 0) return {};
    if (n > 0 || errno == EINTR) continue;
    if (in == 0 && (errno == EXDEV || errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP)) break;
    return sys::from_errno("copy", errno);
  }
  constexpr std::size_t kBuffer = 256 * 1024;
  const auto buffer = std::make_unique_for_overwrite<char[]>(kBuffer);
  while (left(1) > 0) {
    const ssize_t n = ::pread(from, buffer.get(), left(kBuffer), in);
    if (n == 0) return {};
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return sys::from_errno("read", errno);
    in += n;
    const std::string_view piece(buffer.get(), static_cast<std::size_t>(n));
    if (auto done = sys::write_all_at(to, static_cast<std::uint64_t>(out), piece, "the copy"); !done) return done;
    out += n;
  }
  return {};
}

Result<FileReplacement> FileReplacement::begin(const std::string& path) {
  auto real = follow_links(path);
  if (!real) return Failure(real.error());
  struct stat st;
  const bool exists = ::lstat(real->c_str(), &st) == 0;
  if (is_directory_name(*real) || (exists && S_ISDIR(st.st_mode))) return sys::from_errno("write " + path, EISDIR);
  if (exists && !S_ISREG(st.st_mode)) return fail(Code::Internal, "write " + path + ": not a regular file");

  auto directory = open_existing_parent(*real);
  if (!directory) return with_context("write " + path, directory.error());
  auto staged = sys::StagedFile::create(directory->get());
  bool elsewhere = false;
  if (!staged && exists && rename_cannot_work(staged.error().sys_errno)) {
    auto temporary = sys::open_at(AT_FDCWD, temporary_directory(), O_PATH | O_DIRECTORY);
    if (!temporary) return with_context("write " + path, temporary.error());
    staged = sys::StagedFile::create(temporary->get());
    elsewhere = true;
  }
  if (!staged) return with_context("write " + path, staged.error());
  FileReplacement replacement(std::move(*staged), path, std::move(*real));
  replacement.elsewhere_ = elsewhere;
  return replacement;
}

Result<void> FileReplacement::write_out() {
  const unsigned all = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  if (::sync_file_range(fd(), 0, 0, all) == 0) return {};
  // A kernel or a seccomp filter that does not know the call.
  if (errno == ENOSYS || errno == EPERM) return sync();
  return sys::from_errno("write " + path_, errno);
}

Result<void> FileReplacement::sync() {
  if (::fsync(staged_.fd()) < 0) return sys::from_errno("sync " + path_, errno);
  return {};
}

Result<void> FileReplacement::overwrite(const Permission& permission) {
  auto target = sys::open_at(AT_FDCWD, real_path_, O_WRONLY | O_NOFOLLOW | O_NONBLOCK);
  if (!target) return with_context("write " + path_, target.error());
  struct stat fresh;
  if (::fstat(staged_.fd(), &fresh) < 0) return sys::from_errno("stat " + path_, errno);
  // Not O_TRUNC: a full disk must show before the old contents are gone. File systems that cannot reserve say so.
  if (fresh.st_size > 0 && ::fallocate(target->get(), FALLOC_FL_KEEP_SIZE, 0, fresh.st_size) < 0 &&
      errno != EOPNOTSUPP) {
    return sys::from_errno("write " + path_, errno);
  }
  if (auto ok = copy_contents(staged_.fd(), target->get()); !ok) return with_context("write " + path_, ok.error());
  if (::ftruncate(target->get(), fresh.st_size) < 0) return sys::from_errno("truncate " + path_, errno);
  if (auto ok = apply_permission(target->get(), permission, path_); !ok) return ok;
  if (::fsync(target->get()) < 0) return sys::from_errno("sync " + path_, errno);
  return {};
}

Result<std::string> FileReplacement::place(const Permission& permission) {
  std::string parent(parent_of(real_path_));
  auto directory = sys::open_at(AT_FDCWD, parent, O_PATH | O_DIRECTORY);
  if (!directory && directory.error().sys_errno == ENOENT) {
    if (auto ok = sys::make_directories(parent, 0777); !ok) return Failure(ok.error());
    directory = sys::open_at(AT_FDCWD, parent, O_PATH | O_DIRECTORY);
  }
  if (!directory) return with_context("write " + path_, directory.error());

  struct stat old;
  const bool exists = ::lstat(real_path_.c_str(), &old) == 0 && S_ISREG(old.st_mode);
  if (exists && (elsewhere_ || !inherit(staged_.fd(), real_path_, old))) {
    if (auto ok = overwrite(permission); !ok) return Failure(ok.error());
    return parent;
  }
  if (auto ok = apply_permission(staged_.fd(), permission, path_); !ok) return Failure(ok.error());
  auto placed = staged_.place(directory->get(), std::string(base_name(real_path_)));
  if (!placed && exists && rename_cannot_work(placed.error().sys_errno)) {
    if (auto ok = overwrite(permission); !ok) return Failure(ok.error());
    return parent;
  }
  if (!placed) return with_context("write " + path_, placed.error());
  return parent;
}

}  // namespace osb::execd
