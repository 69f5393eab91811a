#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"

namespace osb::sandboxd {

// Logs that a sandbox writes and we only look at. Symbolic links are refused.

// The last `limit` bytes of a file that somebody may be writing to.
Result<std::string> read_tail(const std::string& path, std::size_t limit);

// Gives the disk space of everything but the last `keep` bytes back, once there is twice as much. The size stays, so
// that writers and readers notice nothing: what is gone reads as zeros.
Result<void> free_all_but_tail(const std::string& path, std::uint64_t keep);

}  // namespace osb::sandboxd
