#include "kernel/btrfs.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <linux/btrfs.h>
#include <linux/magic.h>
#include <memory>
#include <new>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "sys/syscall.h"

namespace osb::kernel {
namespace {

// Newer than the headers of Debian 12.
constexpr std::uint64_t kEnableSimpleQuotas = 4;
constexpr ino_t kSubvolumeInode = 256;  // of the root directory of every subvolume

std::uint64_t as_limit(std::uint64_t bytes) { return bytes == 0 ? ~std::uint64_t{0} : bytes; }

template <typename Args>
Result<void> set_name(Args& args, const std::string& name) {
  if (name.size() >= sizeof args.name || name.contains('/')) {
    return fail(Code::InvalidRequest, "'" + name + "' cannot be the name of a subvolume");
  }
  std::ranges::copy(name, args.name);
  return {};
}

}  // namespace

bool is_btrfs(int directory) {
  struct statfs found{};
  return ::fstatfs(directory, &found) == 0 && found.f_type == BTRFS_SUPER_MAGIC;
}

bool has_btrfs_quotas(int directory) {
  // A limit for a group that does not exist: ENOENT with quotas, ENOTCONN without.
  const auto limited = limit_btrfs_group(directory, btrfs_group(0xffff, 1), 0);
  return limited || limited.error().sys_errno == ENOENT;
}

Result<void> enable_btrfs_quotas(int directory) {
  for (const std::uint64_t command : {kEnableSimpleQuotas, std::uint64_t{BTRFS_QUOTA_CTL_ENABLE}}) {
    btrfs_ioctl_quota_ctl_args args{};
    args.cmd = command;
    if (::ioctl(directory, BTRFS_IOC_QUOTA_CTL, &args) == 0 || errno == EEXIST) return {};
    if (errno != EINVAL) break;
  }
  return sys::from_errno("turn on the quotas of a btrfs", errno);
}

Result<void> make_btrfs_group(int directory, std::uint64_t group) {
  btrfs_ioctl_qgroup_create_args args{};
  args.create = 1;
  args.qgroupid = group;
  if (::ioctl(directory, BTRFS_IOC_QGROUP_CREATE, &args) == 0 || errno == EEXIST) return {};
  if (errno == ENOTCONN) return fail(Code::Unsupported, "the quotas of this btrfs are off");
  return sys::from_errno("make a quota group", errno);
}

Result<void> limit_btrfs_group(int directory, std::uint64_t group, std::uint64_t bytes) {
  btrfs_ioctl_qgroup_limit_args args{};
  args.qgroupid = group;
  args.lim.flags = BTRFS_QGROUP_LIMIT_MAX_RFER;
  args.lim.max_rfer = as_limit(bytes);
  if (::ioctl(directory, BTRFS_IOC_QGROUP_LIMIT, &args) < 0) return sys::from_errno("limit a quota group", errno);
  return {};
}

Result<void> limit_subvolume(int subvolume, std::uint64_t bytes) {
  return limit_btrfs_group(subvolume, 0, bytes);  // 0: that of the subvolume itself
}

Result<void> make_subvolume(int parent, const std::string& name, std::uint64_t group, std::uint64_t bytes) {
  // A structure with one group at its end.
  alignas(btrfs_qgroup_inherit) std::array<std::byte, sizeof(btrfs_qgroup_inherit) + sizeof(std::uint64_t)> memory{};
  auto* const inherit = new (memory.data()) btrfs_qgroup_inherit{};
  inherit->flags = BTRFS_QGROUP_INHERIT_SET_LIMITS;
  inherit->num_qgroups = 1;
  inherit->lim.flags = bytes == 0 ? 0 : BTRFS_QGROUP_LIMIT_MAX_RFER;
  inherit->lim.max_rfer = bytes;
  std::memcpy(memory.data() + sizeof *inherit, &group, sizeof group);
  auto args = std::make_unique<btrfs_ioctl_vol_args_v2>();  // a page
  args->flags = BTRFS_SUBVOL_QGROUP_INHERIT;
  args->size = memory.size();
  args->qgroup_inherit = inherit;
  if (auto named = set_name(*args, name); !named) return named;
  if (::ioctl(parent, BTRFS_IOC_SUBVOL_CREATE_V2, args.get()) == 0) return {};
  return sys::from_errno("make subvolume " + name, errno);
}

bool is_subvolume(int parent, const std::string& name) {
  struct stat found{};
  return ::fstatat(parent, name.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(found.st_mode) &&
         found.st_ino == kSubvolumeInode && is_btrfs(parent);
}

Result<void> remove_subvolume(int parent, const std::string& name) {
  auto args = std::make_unique<btrfs_ioctl_vol_args>();
  if (auto named = set_name(*args, name); !named) return named;
  if (::ioctl(parent, BTRFS_IOC_SNAP_DESTROY, args.get()) == 0) return {};
  return sys::from_errno("remove subvolume " + name, errno);
}

void free_removed_subvolumes(int directory) { (void)::ioctl(directory, BTRFS_IOC_SYNC); }

Result<void> grow_btrfs(int directory) {
  btrfs_ioctl_vol_args args{};
  std::strcpy(args.name, "max");
  if (::ioctl(directory, BTRFS_IOC_RESIZE, &args) < 0) return sys::from_errno("grow a btrfs", errno);
  return {};
}

}  // namespace osb::kernel
