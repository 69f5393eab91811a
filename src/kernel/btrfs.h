#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"

namespace osb::kernel {

// Subvolumes of btrfs and their quota groups. A subvolume is a directory with a tree of its own: the kernel counts the
// bytes of its files and of its metadata, and it is removed at once, whatever is in it. Needs root. A `directory` is
// any open directory of the file system.

bool is_btrfs(int directory);

// Whether quotas are on. Changes nothing.
bool has_btrfs_quotas(int directory);

// Turns on quotas: simple ones (Linux 6.7), which are cheap and count bytes for the subvolume that wrote them, or full
// ones on older kernels. Quotas that are on stay as they are.
Result<void> enable_btrfs_quotas(int directory);

// A group that subvolumes can be put in; it counts all their bytes. It may exist already. Code::Unsupported: quotas are
// off.
Result<void> make_btrfs_group(int directory, std::uint64_t group);
constexpr std::uint64_t btrfs_group(std::uint16_t level, std::uint64_t id) { return (std::uint64_t{level} << 48) | id; }

// Beyond so many bytes writes fail with EDQUOT; removing files still works. 0: no limit.
Result<void> limit_btrfs_group(int directory, std::uint64_t group, std::uint64_t bytes);
Result<void> limit_subvolume(int subvolume, std::uint64_t bytes);

// A subvolume `name` in the directory `parent`, mode 0755, a member of `group`, with a limit of its own.
Result<void> make_subvolume(int parent, const std::string& name, std::uint64_t group, std::uint64_t bytes);
bool is_subvolume(int parent, const std::string& name);
// With everything in it, in constant time: the kernel frees the space later. Code::NotFound.
Result<void> remove_subvolume(int parent, const std::string& name);

// Lets the kernel begin to free the space of removed subvolumes; by itself it begins within half a minute. Waits for
// the disk.
void free_removed_subvolumes(int directory);

// Makes the file system as large as its device.
Result<void> grow_btrfs(int directory);

}  // namespace osb::kernel
