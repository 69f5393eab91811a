#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"

namespace osb::kernel {

// An overlay whose layers are all seen through the map of `userns`, so that ids on disk are those inside.
struct OverlayPlan {
  std::span<const std::string> lower;  // directories, top first; 1 to 500
  // Two directories in one, neither in the other: both are reached through one mapped mount of their common parent. No
  // overlay themselves.
  std::string upper;
  std::string work;
  int userns = -1;
};

// Prepared by one process and mounted by a child of it, in a mount namespace that begins empty
// (make_empty_mount_namespace): there the layers have places of their own and names so short that the options of 500
// fit in the one page that the kernel takes. When the child has left that root (pivot_root, umount2) only the overlay
// is left, and all layers have gone in one go. Attaching them nowhere, as newer kernels allow, would cost one RCU
// grace period for each.
//
// A btrfs gives the same inode numbers in each subvolume, and an overlay takes numbers of one file system for unique:
// two of its files could pass for one. If `upper` and a lower directory are on btrfs, the lower ones are an overlay of
// their own, without an upper directory, below this one: another file system, with numbers of its own.
//
// It is volatile: nothing is synced when it goes (a plain overlay syncs the whole file system of `upper`), and `work`
// cannot be used a second time. Directories are never redirected and files never split in data and attributes, so that
// `upper` is a layer that stands on its own. Device nodes in it do not work.
class Overlay {
 public:
  // `number` tells overlays apart that are mounted in one namespace: 0 or 1. Code::Unsupported: the file system of a
  // layer cannot map ids. Code::InvalidRequest: too many layers, or upper and work are not where they should be.
  static Result<Overlay> prepare(const OverlayPlan& plan, int number = 0);

  // In a child: system calls only. Returns 0, or -1 and errno. The child must be the FileOwner of the map's first id:
  // an overlay works with the identity of its maker, and with one that is not in the map it silently becomes read-only.
  int mount_in_child(const char* target) const noexcept;

 private:
  struct Layer {
    int mount;
    char place[8];  // "/0", "/1", ..
  };

  Result<void> add(const std::string& directory, int userns, int number);
  void stack_lower(int number, const std::string& names);

  std::vector<Layer> layers_;     // lower ones, then the parent of upper and work
  std::vector<UniqueFd> owners_;  // of the mounts
  std::string options_;
  // Of the overlay of the lower directories, if it is one of its own.
  std::string lower_options_, lower_place_, empty_place_;
};

}  // namespace osb::kernel
