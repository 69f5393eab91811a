#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <sys/types.h>

#include "base/error.h"

namespace osb::sandboxd {

enum class DiskMeans { None, ProjectQuota, BtrfsGroup };
std::string_view to_string(DiskMeans means);

// The directory trees that sandboxes write to: the tree of each sandbox, and each named volume. Where the file system
// has the means, each tree has a limit of its own, which the kernel enforces:
//
//   ProjectQuota  xfs, ext4 with prjquota: bytes, and inodes: one for every 16 KiB of the limit, at least 10,000
//   BtrfsGroup    btrfs: a subvolume with a quota group. Metadata counts as bytes, and there is no table of inodes that
//                 could be used up. All trees are in one more group, whose limit leaves the disk's reserve free
//   None          no limits
//
// Values; all calls block and may come from any thread.
class DiskTrees {
 public:
  DiskTrees() = default;
  explicit DiskTrees(DiskMeans means) : means_(means) {}

  DiskMeans means() const { return means_; }
  bool limits() const { return means_ != DiskMeans::None; }
  // The tree of a sandbox below its directory, whose record.json is not under the limit: a full sandbox can still be
  // paused and removed. Without limits the directory is the tree.
  const char* below_directory() const { return limits() ? "/tree" : ""; }

  // An empty tree. 0 bytes: no limit yet.
  Result<void> make(const std::string& path, mode_t mode, std::uint64_t bytes) const;
  // Also of a tree that is in use. Code::Unsupported: there are no limits here.
  Result<void> set_limit(const std::string& path, std::uint64_t bytes) const;
  // Moves the parts of a sandbox that was made when the disk had limits, or had none, to where they are now expected.
  // It keeps the limit it has. Living sandboxes do not notice.
  void fit(const std::string& directory) const;
  // Removes `name` in the open directory `parent`, a tree or a directory that contains one, with its limit.
  Result<void> remove(int parent, const std::string& name) const;

 private:
  DiskMeans means_ = DiskMeans::None;
};

// The means of the file system that holds `directory`. `state_directory` has the image layers: a btrfs that holds those
// too has no means, because overlayfs shows the same inode number for files of different subvolumes.
DiskMeans find_disk_means(const std::string& directory, const std::string& state_directory);

// The group of all trees on a btrfs.
inline constexpr std::uint64_t kAllTrees = (std::uint64_t{1} << 48) | 1;

}  // namespace osb::sandboxd
