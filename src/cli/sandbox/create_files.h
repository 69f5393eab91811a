#pragma once

#include <opensandbox/types.h>
#include <string>
#include <vector>

#include "cli/problem.h"

namespace osb::cli {

// The files of `osb sandbox create`: the API's objects in camelCase (snake_case is understood too).
Expected<opensandbox::NetworkPolicy> read_network_policy(const std::string& path);
Expected<std::vector<opensandbox::Volume>> read_volumes(const std::string& path);

}  // namespace osb::cli
