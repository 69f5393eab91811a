#pragma once

#include <string>

#include "base/error.h"

namespace osb::sys {

// Removes `path`, relative to the open directory `parent` (or AT_FDCWD), and, if it is a directory, all below it.
// Missing is success; "/" is refused. Safe for trees that strangers wrote: symbolic links are removed, not followed,
// other mounts are not entered (EBUSY), and neither depth nor path length matters, since two descriptors are open at a
// time and there is no recursion. Stops at the first thing that cannot be removed.
Result<void> remove_tree(int parent, const std::string& path);

}  // namespace osb::sys
