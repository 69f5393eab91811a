#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "sandboxd/disk/disk_trees.h"
#include "sys/disk_reserve.h"

namespace osb::sandboxd {

// Settings of the disk. A limit of -1 is derived from the disk (resolve_limit), 0 is none.
struct DiskConfig {
  sys::DiskReserve reserve;
  std::string directory;             // for all that sandboxes write; empty: the state directory, or the image
  std::uint64_t image_bytes = 0;     // size of an image to make (DiskImage)
  bool image_files = false;          // an image for each tree (image_tree.h), where nothing else limits directories
  std::int64_t sandbox_bytes = -1;   // of a sandbox whose request sets no limit
  std::int64_t volume_bytes = -1;    // of each named volume
  std::int64_t snapshot_bytes = -1;  // of all snapshots together
};

// The place of everything that sandboxes write: sandboxes/, ready/, trash/ and volumes/.
struct WritableDisk {
  std::string directory;
  DiskTrees trees;
  std::uint64_t bytes = 0;     // of its file system, as far as trees can use them
  std::uint64_t unusable = 0;  // the rest: a btrfs keeps a share of its space for metadata
};

// Mounts the image if there is one, and finds the means for limits. In a mount namespace of our own, with the state
// locked.
Result<WritableDisk> open_writable_disk(const DiskConfig& config, const std::string& state_directory);

// A quarter of the disk, at most 10 GiB, for -1; the disk must have limits for any number but 0. `setting` names it in
// errors.
Result<std::uint64_t> resolve_limit(std::int64_t wanted, const WritableDisk& disk, const char* setting);

// Limits of all snapshots together, which lie in the state directory. -1: half of its file system. The inodes follow:
// at most half of the file system's.
struct SnapshotLimits {
  std::uint64_t bytes = UINT64_MAX;
  std::uint64_t entries = UINT64_MAX;
};
Result<SnapshotLimits> resolve_snapshot_limits(std::int64_t wanted, const std::string& state_directory);

}  // namespace osb::sandboxd
