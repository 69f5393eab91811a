#pragma once

#include <string>

#include "base/error.h"

namespace osb::sandboxd {

// The last `limit` bytes of a file that somebody else may be writing to. Symbolic links are refused.
Result<std::string> read_tail(const std::string& path, std::size_t limit);

}  // namespace osb::sandboxd
