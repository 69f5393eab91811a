#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace osb::sys {

// Both write all bytes or fail with errno, and start again after a signal; `what` names the file in the error.
Result<void> write_all(int fd, std::string_view bytes, const std::string& what);
// At `offset`; the file's position stays.
Result<void> write_all_at(int fd, std::uint64_t offset, std::string_view bytes, const std::string& what);

}  // namespace osb::sys
