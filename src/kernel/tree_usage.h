#pragma once

#include <cstdint>

#include "base/error.h"

namespace osb::kernel {

struct TreeUsage {
  std::uint64_t bytes = 0;  // on disk, directories included; a file with several names counts once if all are in there
  std::uint64_t entries = 0;
  bool complete = true;  // false: the limits below ended the count, `bytes` is what was seen until then
};

struct TreeUsageLimits {
  std::uint64_t entries = 200'000;
  unsigned depth = 128;  // each level holds a descriptor
};

// The size of the tree below the open directory. Another process may change it meanwhile: symbolic links and mounts are
// not followed, files that vanish are not counted. Blocks, for about 2 µs an entry.
Result<TreeUsage> tree_usage(int directory, const TreeUsageLimits& limits = {});

}  // namespace osb::kernel
