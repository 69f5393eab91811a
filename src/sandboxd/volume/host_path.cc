#include "sandboxd/volume/host_path.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "kernel/mount.h"
#include "sandboxd/volume/check_volumes.h"
#include "sandboxd/volume/host_ids.h"
#include "sys/openat2.h"
#include "sys/syscall.h"

namespace osb::sandboxd {

namespace fs = std::filesystem;

namespace {

Failure refused(Code code, const char* reason, std::string message, int sys_errno = 0) {
  Error error(code, std::move(message), sys_errno);
  error.reason = reason;
  return Failure(std::move(error));
}

Failure not_allowed(const std::string& path, std::string_view why) {
  return refused(Code::InvalidRequest, "VOLUME::HOST_PATH_NOT_ALLOWED", fmt::format("host path {}: {}", path, why));
}

std::string without_trailing_slash(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

std::string resolved(const fs::path& path) {
  std::error_code failed;
  const fs::path real = fs::canonical(path, failed);
  return without_trailing_slash(failed ? path.lexically_normal().string() : real.string());
}

std::string below(const std::string& path, const std::string& prefix) {
  if (path == prefix) return ".";
  return path.substr(prefix == "/" ? 1 : prefix.size() + 1);
}

int make_directory(int parent, const std::string& name, HostOwners* owners) {
  const auto owner = owners == nullptr ? std::nullopt : owners->of_new_directory(parent);
  if (!owner) return ::mkdirat(parent, name.c_str(), 0755);
  // Not chown afterwards: the name may be another directory by then.
  const kernel::FileOwner as(owner->uid, owner->gid);
  return ::mkdirat(parent, name.c_str(), 0755);
}

}  // namespace

Result<std::string> real_path(int fd) {
  char target[PATH_MAX];
  const ssize_t size = ::readlink(fmt::format("/proc/self/fd/{}", fd).c_str(), target, sizeof target);
  if (size < 0) return sys::from_errno("readlink /proc/self/fd", errno);
  if (size == sizeof target || target[0] != '/') return fail(Code::InvalidRequest, "not reachable by a path");
  return std::string(target, static_cast<std::size_t>(size));
}

Result<UniqueFd> open_beneath(int directory, const std::string& path) {
  return sys::openat2(directory, path, O_PATH, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);
}

Result<UniqueFd> make_beneath(int directory, const std::string& path, HostOwners* owners) {
  auto at = sys::openat2(directory, ".", O_PATH, RESOLVE_BENEATH);
  for (std::size_t start = 0; at && start <= path.size();) {
    const std::size_t slash = std::min(path.find('/', start), path.size());
    const std::string name = path.substr(start, slash - start);
    start = slash + 1;
    if (name.empty()) continue;
    auto next = open_beneath(at->get(), name);
    if (!next && next.error().sys_errno == ENOENT) {
      const bool made = make_directory(at->get(), name, owners) == 0;
      if (!made && errno != EEXIST) return sys::from_errno("mkdir " + path, errno);
      if (made) {
        // Past our umask; by descriptor, because the name may be another user's link by now.
        const auto fresh = sys::open_at(at->get(), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
        if (fresh && ::fchmod(fresh->get(), 0755) < 0) return sys::from_errno("chmod " + path, errno);
      }
      next = open_beneath(at->get(), name);
    }
    at = std::move(next);
  }
  return at;
}

HostPaths::HostPaths(const std::vector<fs::path>& allowed, const std::vector<fs::path>& own) {
  for (const fs::path& path : own) own_.push_back(resolved(path));
  for (const fs::path& path : allowed) {
    if (!path.is_absolute()) continue;  // nothing lies below it
    allowed_.push_back({without_trailing_slash(path.lexically_normal().string()), resolved(path)});
  }
}

const HostPaths::Allowed* HostPaths::covering(std::string_view path, std::string Allowed::* spelling) const {
  for (const Allowed& allowed : allowed_) {
    if (is_at_or_below(path, allowed.*spelling)) return &allowed;
  }
  return nullptr;
}

// Follows links; where that leads is not yet checked.
Result<UniqueFd> HostPaths::resolve(const std::string& path, bool create_if_missing, HostOwners& owners) const {
  // Before any access to the disk: a caller must not learn whether a path outside of the list exists.
  const Allowed* written = covering(path, &Allowed::written);
  const Allowed* const real = written != nullptr ? nullptr : covering(path, &Allowed::real);
  if (written == nullptr && real == nullptr) return not_allowed(path, "not in sandboxd's list of allowed host paths");

  auto found = sys::openat2(AT_FDCWD, path, O_PATH, RESOLVE_NO_MAGICLINKS);
  if (found) return found;
  const int failed = found.error().sys_errno;
  if (failed == ELOOP) return not_allowed(path, "goes through a magic link, or links in a circle");
  if (failed != ENOENT || !create_if_missing) {
    return refused(Code::InvalidRequest, "VOLUME::HOST_PATH_NOT_FOUND",
                   fmt::format("host path: {}", found.error().message), failed);
  }
  const std::string& spelled = written != nullptr ? written->written : real->real;
  const std::string& prefix = written != nullptr ? written->real : real->real;
  const bool above = std::ranges::any_of(own_, [&](const std::string& own) { return is_at_or_below(own, prefix); });
  if (above) return not_allowed(path, "missing, and not made above sandboxd's own state");
  auto root = sys::openat2(AT_FDCWD, prefix, O_PATH, RESOLVE_NO_SYMLINKS);
  auto made = root ? make_beneath(root->get(), below(path, spelled), &owners) : std::move(root);
  if (made) return made;
  return refused(Code::Internal, "VOLUME::HOST_PATH_CREATE_FAILED",
                 fmt::format("host path {}: {}", path, made.error().message), made.error().sys_errno);
}

Result<UniqueFd> HostPaths::open(const std::string& path, bool create_if_missing, HostOwners& owners,
                                 const std::function<void()>& checked) const {
  auto found = resolve(path, create_if_missing, owners);
  if (!found) return found;
  const auto real = real_path(found->get());
  if (!real) return not_allowed(path, real.error().message);
  const Allowed* const allowed = covering(*real, &Allowed::real);
  if (allowed == nullptr) return not_allowed(path, "leads out of the allowed host paths");
  const bool ours = std::ranges::any_of(
      own_, [&](const std::string& own) { return is_at_or_below(*real, own) || is_at_or_below(own, *real); });
  if (ours) {
    return not_allowed(path, "sandboxd's own state is there");
  }
  if (checked) checked();

  // Opens the checked path once more, without following links, in case it was swapped meanwhile.
  auto root = sys::openat2(AT_FDCWD, allowed->real, O_PATH, RESOLVE_NO_SYMLINKS);
  const std::string rest = below(*real, allowed->real);
  auto opened = root && rest != "." ? sys::openat2(root->get(), rest, O_PATH, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS)
                                    : std::move(root);
  if (!opened) return not_allowed(path, "was changed while it was being opened; try again");
  struct stat st;
  if (::fstat(opened->get(), &st) < 0) return sys::from_errno("stat " + path, errno);
  if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode)) return not_allowed(path, "neither a directory nor a regular file");
  return opened;
}

}  // namespace osb::sandboxd
