#pragma once

#include <string_view>

#include "base/error.h"
#include "base/unique_fd.h"

namespace osb::execd {

// A file without a name, at its beginning: for a child that gets its descriptor. `name` is for people who look at
// /proc.
Result<UniqueFd> memory_file(const char* name, std::string_view content);

}  // namespace osb::execd
