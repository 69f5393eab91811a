#pragma once

#include <cstdint>
#include <string>
#include <sys/types.h>

#include "base/error.h"

namespace osb::sandboxd {

// A tree of a sandbox, or a named volume, as an ext4 of its own in a sparse file: a limit on bytes and inodes for hosts
// whose file system cannot limit directories and that have no btrfs.
//
//   <tree>/image   the file system
//   <tree>/limit   its limit in bytes; the file system is a little larger
//   <tree>/files   its mount point, in the daemon's own mount namespace
//
// A living sandbox holds the file system, a daemon that ends does not take it away. All calls block; `files` is the
// path of a mount point.

// Whether image trees can work on this host: loop devices, mkfs.ext4.
Result<void> probe_image_trees();

// An empty tree. `templates` is a directory for one formatted image of each size, which is copied. `bytes` is not 0.
Result<void> make_image_tree(const std::string& templates, const std::string& files, mode_t mode, std::uint64_t bytes);
// Mounts the tree for a daemon that has just started. A tree that is mounted already stays as it is.
Result<void> attach_image_tree(const std::string& files);
// A smaller limit makes the file system refuse new blocks. A limit above the size of the file system takes a new,
// larger one with the same files: only for a tree that is not in use (else EBUSY).
Result<void> limit_image_tree(const std::string& templates, const std::string& files, std::uint64_t bytes);
// The tree's image, limit and name are on disk when it returns.
Result<void> sync_image_tree(const std::string& files);
// Before the tree `name` in the directory `parent` is removed.
void detach_image_tree(int parent, const std::string& name);

}  // namespace osb::sandboxd
