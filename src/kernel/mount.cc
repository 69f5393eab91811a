#include "kernel/mount.h"

#include <fcntl.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <fmt/format.h>

#include "sys/clone.h"
#include "sys/syscall.h"

namespace osb::kernel {

using sys::raw;

Result<UniqueFd> clone_mount(int dir, const std::string& path, bool recursive) {
  const unsigned flags =
      OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | (recursive ? AT_RECURSIVE : 0U) | (path.empty() ? AT_EMPTY_PATH : 0U);
  const int fd = ::open_tree(dir, path.c_str(), flags);
  if (fd < 0) return sys::from_errno("clone the mount of " + path, errno);
  return UniqueFd(fd);
}

Result<void> set_mount_attributes(int mount, std::uint64_t attributes, bool recursive) {
  struct mount_attr attr{};
  attr.attr_set = attributes;
  const unsigned flags = AT_EMPTY_PATH | (recursive ? AT_RECURSIVE : 0U);
  if (::mount_setattr(mount, "", flags, &attr, sizeof attr) < 0) return sys::from_errno("mount_setattr", errno);
  return {};
}

Result<void> map_mount_ids(int mount, int userns, const std::string& what) {
  struct mount_attr attr{};
  attr.attr_set = MOUNT_ATTR_IDMAP;
  attr.userns_fd = static_cast<std::uint64_t>(userns);
  if (::mount_setattr(mount, "", AT_EMPTY_PATH, &attr, sizeof attr) == 0) return {};
  const int e = errno;
  if (e != EINVAL) return sys::from_errno("map the ids of " + what, e);
  return Failure(Error(
      Code::Unsupported,
      "map the ids of " + what + ": its file system has no idmapped mounts on this kernel; use ext4, xfs or btrfs", e));
}

Result<FsContext> FsContext::open(const std::string& type) {
  const int fd = ::fsopen(type.c_str(), FSOPEN_CLOEXEC);
  if (fd < 0) return sys::from_errno("open file system " + type, errno);
  return FsContext(UniqueFd(fd), type);
}

Result<void> FsContext::set(const char* key, const std::string& value) {
  if (::fsconfig(fd_.get(), FSCONFIG_SET_STRING, key, value.c_str(), 0) < 0) {
    return failed(fmt::format("{}={}", key, value), errno);
  }
  return {};
}

Result<UniqueFd> FsContext::mount(std::uint64_t attributes) {
  if (::fsconfig(fd_.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) < 0) return failed("create", errno);
  const int fd = ::fsmount(fd_.get(), FSMOUNT_CLOEXEC, static_cast<unsigned>(attributes));
  if (fd < 0) return failed("mount", errno);
  return UniqueFd(fd);
}

Failure FsContext::failed(const std::string& what, int e) const {
  std::string message = fmt::format("{}: {}", type_, what);
  char said[256];  // one message per read, "e text"
  for (ssize_t got; (got = ::read(fd_.get(), said, sizeof said)) > 0;) {
    const std::string_view text(said, static_cast<std::size_t>(got));
    if (text.size() > 2 && text[0] == 'e') message += fmt::format(": {}", text.substr(2, text.find('\n') - 2));
  }
  return sys::from_errno(message, e);
}

// Raw calls: glibc's would do the same today, but these must never concern other threads. setfsuid answers the old id
// and no error; an id that does not exist here cannot be set, and the overlay then says so.
FileOwner::FileOwner(std::uint32_t uid, std::uint32_t gid) : securebits_(::prctl(PR_GET_SECUREBITS)) {
  ::prctl(PR_SET_SECUREBITS, securebits_ | SECBIT_NO_SETUID_FIXUP);  // keeps capabilities when fsuid leaves 0
  gid_ = static_cast<std::uint32_t>(raw(SYS_setfsgid, gid));
  uid_ = static_cast<std::uint32_t>(raw(SYS_setfsuid, uid));
}

FileOwner::~FileOwner() {
  raw(SYS_setfsuid, uid_);
  raw(SYS_setfsgid, gid_);
  ::prctl(PR_SET_SECUREBITS, securebits_);
}

}  // namespace osb::kernel
