#pragma once

#include <vector>

#include "archive/tar_entry.h"
#include "base/error.h"

namespace osb::archive {

// Where the first `size` bytes of an open file hold data; the rest are holes. One segment of the whole size where the
// file has no holes or the file system does not tell. Very many holes are reduced to the larger ones: readers limit the
// map of a sparse file.
Result<std::vector<TarEntry::Segment>> data_segments(int file, std::uint64_t size);

}  // namespace osb::archive
