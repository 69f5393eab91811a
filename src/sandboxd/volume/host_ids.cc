#include "sandboxd/volume/host_ids.h"

#include <algorithm>
#include <array>
#include <fcntl.h>
#include <filesystem>
#include <sys/xattr.h>
#include <vector>

#include <fmt/format.h>

#include "kernel/namespace.h"
#include "sandboxd/volume/host_path.h"
#include "sys/openat2.h"
#include "sys/syscall.h"

namespace osb::sandboxd {
namespace {

constexpr std::uint32_t kIds = 65'536;
constexpr std::uint32_t kNoId = 0xffff'ffff;  // means "no id" to the kernel

// Root inside is `root` on disk, the other ids inside are those after `others`. All other ids on disk stay as they are:
// the sandbox has none of them, and the kernel lets no one write to a directory whose owner a mount does not map.
std::vector<kernel::IdRange> map_of(std::uint32_t root, std::uint32_t others, std::uint32_t id_base) {
  std::vector<kernel::IdRange> out = {{root, id_base, 1}, {others + 1, id_base + 1, kIds - 1}};
  std::array<kernel::IdRange, 3> taken = {{{root, root, 1}, {others + 1, 0, kIds - 1}, {id_base, 0, kIds}}};
  std::ranges::sort(taken, {}, &kernel::IdRange::inside);
  std::uint32_t next = 0;
  for (const kernel::IdRange& range : taken) {
    if (range.inside > next) out.push_back({next, next, range.inside - next});
    next = std::max(next, range.inside + range.count);
  }
  if (next < kNoId) out.push_back({next, next, kNoId - next});
  return out;
}

bool has_acl(int directory) {
  return ::getxattr(fmt::format("/proc/self/fd/{}", directory).c_str(), "system.posix_acl_access", nullptr, 0) > 0;
}

// The directory that holds `source`. Nothing at the root.
UniqueFd parent_of(int source, const struct stat& st) {
  if (!S_ISDIR(st.st_mode)) {
    const auto path = real_path(source);
    if (!path) return UniqueFd();
    const std::string parent = std::filesystem::path(*path).parent_path();
    auto opened = sys::openat2(AT_FDCWD, parent, O_PATH | O_DIRECTORY, RESOLVE_NO_SYMLINKS);
    return opened ? std::move(*opened) : UniqueFd();
  }
  UniqueFd parent(::openat(source, "..", O_PATH | O_DIRECTORY | O_CLOEXEC));
  struct stat above{};
  if (!parent || ::fstat(parent.get(), &above) < 0) return UniqueFd();
  const bool is_root = above.st_dev == st.st_dev && above.st_ino == st.st_ino;
  return is_root ? UniqueFd() : std::move(parent);
}

}  // namespace

Result<HostOwners::View> HostOwners::view(const std::string& path, int source, const struct stat& st, bool read_only,
                                          int sandbox_userns, std::uint32_t id_base) {
  if (mode_ == HostIds::Foreign) return View{};
  if (mode_ == HostIds::Same) {
    if (read_only || only_reached_by(0, source, st)) return View{.userns = sandbox_userns};
    Error error(Code::InvalidRequest,
                fmt::format("host path {}: users other than root can reach it, so a setuid file that a sandbox leaves "
                            "there would give them root's rights (host_ids is \"same\"). Close a directory above it "
                            "(chmod 700), mount it read-only, or set [sandbox] host_ids = \"owner\"",
                            path));
    error.reason = "VOLUME::HOST_PATH_NOT_ALLOWED";
    return Failure(std::move(error));
  }
  const FileOwnerIds root = owner_inside(source, st, read_only).value_or(FileOwnerIds{file_ids_, file_ids_});
  auto made = kernel::make_id_map(map_of(root.uid, file_ids_, id_base), map_of(root.gid, file_ids_, id_base));
  if (!made) return with_context("host path " + path, made.error());
  View out{.userns = made->get()};
  out.own = std::move(*made);
  return out;
}

std::optional<FileOwnerIds> HostOwners::of_new_directory(int parent) {
  struct stat st{};
  if (mode_ != HostIds::Owner || ::fstat(parent, &st) < 0) return std::nullopt;
  const bool closed = lets_only_pass(st.st_uid, parent, st) || only_reached_by(st.st_uid, parent, st);
  if (closed && !is_file_id(st.st_uid)) return ids_of(st.st_uid);
  return FileOwnerIds{file_ids_, file_ids_};
}

bool HostOwners::only_reached_by(uid_t user, int source, const struct stat& st) {
  struct stat at = st;
  UniqueFd above = parent_of(source, at);
  while (above) {
    if (::fstat(above.get(), &at) < 0) return false;
    if (lets_only_pass(user, above.get(), at)) return true;
    above = parent_of(above.get(), at);
  }
  return false;
}

// Root's files are given to a sandbox only where no user of the host can reach them, even for reading. Another user's
// may be read: a read-only mount leaves nothing behind.
std::optional<FileOwnerIds> HostOwners::owner_inside(int source, const struct stat& st, bool read_only) {
  if (is_file_id(st.st_uid)) return std::nullopt;
  if ((read_only && st.st_uid != 0) || only_reached_by(st.st_uid, source, st)) return ids_of(st.st_uid);
  return std::nullopt;
}

// The group is the user's own one: files of another group would give its rights to the user, by a setgid file.
FileOwnerIds HostOwners::ids_of(uid_t user) {
  const std::lock_guard lock(mutex_);
  const sys::User* const known = users_.find_user(user);
  const bool usable = known != nullptr && !is_file_id(known->gid) && (known->gid != 0 || user == 0);
  return {user, usable ? known->gid : file_ids_};
}

bool HostOwners::lets_only_pass(uid_t user, int directory, const struct stat& st) {
  if ((st.st_uid != 0 && st.st_uid != user) || (st.st_mode & S_IXOTH) != 0) return false;
  // Without it no entry of an ACL lets anyone pass either: these are then the bits of its mask.
  if ((st.st_mode & S_IXGRP) == 0) return true;
  if (has_acl(directory)) return false;
  const std::lock_guard lock(mutex_);
  return users_.is_private_group(user, st.st_gid);
}

}  // namespace osb::sandboxd
