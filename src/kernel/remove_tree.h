#pragma once

#include <string>

#include "base/error.h"

namespace osb::kernel {

// Removes `name` in the open directory `parent` with all it holds; one that is not there is success. For trees that
// strangers wrote: symbolic links are removed, not followed, other mounts are not entered (EBUSY), and neither depth
// nor path length matters (deep directories are first moved up). Nothing but us may add to the tree meanwhile.
Result<void> remove_tree(int parent, const std::string& name);

}  // namespace osb::kernel
