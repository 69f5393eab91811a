#pragma once

#include <string>

#include "base/error.h"

namespace osb::execd {

// Removes `path` and, if it is a directory, all below it. A symlink is removed, not followed, at every level. Missing
// is success. Depth is not limited: two descriptors are open at a time, and there is no recursion. Stops at the first
// thing that cannot be removed. `path` is clean and absolute; "/" is refused.
Result<void> remove_tree(const std::string& path);

}  // namespace osb::execd
