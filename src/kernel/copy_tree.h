#pragma once

#include <cstdint>

#include "base/error.h"

namespace osb::kernel {

struct CopyTreeOptions {
  // The source is the upper directory of an overlay and the copy shall serve as a lower one elsewhere. Of overlayfs's
  // own attributes (trusted.overlay.*) those stay that say what is deleted: opaque and whiteout, and those of an
  // overlay inside the overlay (trusted.overlay.overlay.*). Attributes about this one mount are dropped: origin,
  // impure, nlink, upper, uuid, protattr. Those without which the tree is not complete are refused, because the data is
  // elsewhere: redirect and metacopy (Code::Unsupported); so is any that we do not know.
  bool overlay_upper = false;

  unsigned threads = 2;  // the caller's is one of them

  // A larger tree is Code::Exhausted, before the file that exceeds the limit is copied.
  std::uint64_t max_bytes = UINT64_MAX;
  std::uint64_t max_entries = UINT64_MAX;
};

struct CopiedTree {
  std::uint64_t entries = 0;  // the root not counted
  std::uint64_t bytes = 0;    // on disk, about: files in whole blocks without holes, one block for every other entry
  std::uint64_t cloned = 0;   // files that share their blocks with the source
  std::uint64_t skipped = 0;  // sockets and device nodes
};

// Copies what is in the directory `source` into the empty directory `destination`, and the attributes of the root
// itself: contents with their holes, hard links, symbolic links, FIFOs, whiteouts (character devices 0/0), owners,
// modes with setuid, times, all extended attributes with file capabilities and ACLs. Blocks are shared where the file
// system can (clone_file), else copied inside the kernel.
//
// Sockets and other device nodes are left out. In an overlay's upper directory one of them may hide a file of a lower
// layer: then a whiteout takes its place, so that nothing reappears. Inode flags (chattr) are not copied.
//
// The source should be at rest (its processes frozen): a change meanwhile may or may not be in the copy, and a file
// that disappears is an error. Nothing outside the source is read, even if it changes meanwhile: names are opened one
// by one without following symbolic links. Other mounts below it are not entered. Paths longer than PATH_MAX are
// Code::Unsupported.
//
// Blocks, needs root. A failure leaves a partial copy behind: the caller removes it. Nothing is synced to disk.
Result<CopiedTree> copy_tree(int source, int destination, const CopyTreeOptions& options = {});

}  // namespace osb::kernel
