#pragma once

#include <opensandbox/types.h>
#include <string>
#include <string_view>
#include <vector>

#include "cli/problem.h"

namespace osb::cli {

// "HOST:PATH[:ro]" as `docker run -v` takes it: a host path begins with '/', '.' or '~' and is made absolute with the
// current directory or `home`; other texts name a volume, which is made if there is none.
Expected<std::vector<opensandbox::Volume>> parse_volumes(const std::vector<std::string>& specs,
                                                         const std::string& home);

}  // namespace osb::cli
