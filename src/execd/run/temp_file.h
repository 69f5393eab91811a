#pragma once

#include <string>

#include "base/error.h"
#include "base/unique_fd.h"

namespace osb::execd {

// A new file without a name in `directory`, readable only by its owner and removed with its last descriptor, also when
// the daemon is killed.
Result<UniqueFd> make_unnamed_file(const std::string& directory);

}  // namespace osb::execd
