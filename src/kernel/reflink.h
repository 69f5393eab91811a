#pragma once

#include "base/error.h"

namespace osb::kernel {

// Makes the empty file `to` share the blocks of `from`: no data is copied, either changes alone later. False when the
// file system cannot (ext4, tmpfs; btrfs, xfs and bcachefs can) or the two files are not on the same one: copy then.
Result<bool> clone_file(int from, int to);

// Whether files below this directory can share blocks, tried out with two files that never get a name. Needs write
// permission. For `sandboxd check`, and to decide whether to write dirty pages back before a tree is frozen.
Result<bool> can_clone_files(int directory);

}  // namespace osb::kernel
