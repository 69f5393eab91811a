#pragma once

#include <string>

#include "base/error.h"
#include "base/unique_fd.h"

namespace osb::execd {

// A new file without a name, readable only by its owner and removed with its last descriptor, also when the daemon is
// killed. It lies in a directory of this user alone in `temp`, made if it is missing, or in `temp` itself where another
// user has taken the name: a file without a name is safe there too.
Result<UniqueFd> make_unnamed_file(const std::string& temp);

}  // namespace osb::execd
