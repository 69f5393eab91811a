#pragma once

#include <string>

#include "base/error.h"
#include "base/unique_fd.h"

namespace osb::sys {

// Locks a file for as long as the descriptor is open, and writes our pid into it. Code::Conflict: a process that lives
// has it. A process that was killed may have left a child that is just being born or ending and still has the
// descriptor: then this waits for its end, which is a matter of milliseconds.
Result<UniqueFd> lock_file(const std::string& path);

}  // namespace osb::sys
