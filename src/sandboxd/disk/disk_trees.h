#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <sys/types.h>

#include "base/error.h"

namespace osb::sandboxd {

enum class DiskMeans { None, ProjectQuota, BtrfsGroup, ImageFile };
std::string_view to_string(DiskMeans means);

// The directory trees that sandboxes write to: the tree of each sandbox, and each named volume. Where the file system
// has the means, each tree has a limit of its own, which the kernel enforces:
//
//   ProjectQuota  xfs, ext4 with prjquota: bytes, and inodes: one for every 16 KiB of the limit, at least 10,000
//   BtrfsGroup    btrfs: a subvolume with a quota group. Metadata counts as bytes, and there is no table of inodes that
//                 could be used up. All trees are in one more group, whose limit leaves the disk's reserve free
//   ImageFile     an ext4 of its own in a file (image_tree.h), on any host with loop devices
//   None          no limits
//
// Values; all calls block and may come from any thread.
class DiskTrees {
 public:
  DiskTrees() = default;
  // `templates`: a directory for ImageFile.
  explicit DiskTrees(DiskMeans means, std::string templates = {}) : means_(means), templates_(std::move(templates)) {}

  DiskMeans means() const { return means_; }
  bool limits() const { return means_ != DiskMeans::None; }
  // The tree of a sandbox below its directory, whose record.json is not under the limit: a full sandbox can still be
  // paused and removed. Without limits the directory is the tree.
  const char* below_directory() const;
  // The same for a named volume, which has nothing but its files.
  const char* below_volume() const { return means_ == DiskMeans::ImageFile ? "/files" : ""; }
  // Whether a tree that was made with the limit `made` can get the limit `wanted` while it is in use. 0: no limit.
  bool takes_limit(std::uint64_t made, std::uint64_t wanted) const {
    return means_ != DiskMeans::ImageFile || made == wanted || (wanted != 0 && (wanted < made || made == 0));
  }
  // Whether statvfs() in a tree with a limit shows that limit instead of the disk.
  bool hides_disk() const { return means_ == DiskMeans::ProjectQuota || means_ == DiskMeans::ImageFile; }

  // An empty tree at `path`, which ends as the two functions above say. 0 bytes: no limit yet.
  Result<void> make(const std::string& path, mode_t mode, std::uint64_t bytes) const;
  // Also of a tree that is in use if takes_limit() says so. Code::Unsupported: there are no limits here.
  Result<void> set_limit(const std::string& path, std::uint64_t bytes) const;
  // Moves the parts of a sandbox that was made when the disk had limits, or had none, to where they are now expected.
  // It keeps the limit it has. Living sandboxes do not notice. Mounts its image.
  void fit(const std::string& directory) const;
  // Mounts the image of a tree that an earlier daemon has made. Nothing for other means.
  Result<void> attach(const std::string& path) const;
  // The tree is on disk when it returns. Nothing for other means, whose trees go to the disk with their directory.
  Result<void> sync(const std::string& path) const;
  // Removes `name` in the open directory `parent`, a tree or a directory that contains one, with its limit.
  Result<void> remove(int parent, const std::string& name) const;

 private:
  DiskMeans means_ = DiskMeans::None;
  std::string templates_;
};

// The means of the file system that holds `directory`. A btrfs has them if its quotas are on: turning them on changes
// the operator's file system, so only open_writable_disk() does it, where a setting says so.
DiskMeans find_disk_means(const std::string& directory);

// The group of all trees on a btrfs.
inline constexpr std::uint64_t kAllTrees = (std::uint64_t{1} << 48) | 1;

}  // namespace osb::sandboxd
