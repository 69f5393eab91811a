#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "execd/isolated/session_root.h"

namespace osb::execd {

// Writes the changes of all layers as a gzip of a tar archive, in the form of an OCI image layer: paths from the root
// without the first slash, an empty file `.wh.NAME` for a removed NAME, `.wh..wh..opq` in a directory that replaces
// another one. Code::TooLarge where the archive would have more than `most` bytes; nothing is written then. The gzip
// stores and does not compress: execd has no compressor.
Result<void> write_changes(const std::vector<SessionLayer>& layers, std::uint64_t most,
                           const std::function<Result<void>(std::string_view)>& write);

struct CommitCounts {
  std::uint64_t written = 0;  // files, directories, links
  std::uint64_t removed = 0;
};

// Does to the lower directory of each layer what its upper directory says. Each file appears whole, by rename. Stops at
// the first failure; the same call again finishes the work.
Result<CommitCounts> commit_changes(const std::vector<SessionLayer>& layers);

}  // namespace osb::execd
