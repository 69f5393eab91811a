#pragma once

#include <string>

#include "cli/problem.h"
#include "policy/templates/compile.h"

namespace osb::cli {

// Whether a user means a file of this machine: it ends with ".toml" or contains a slash.
bool is_policy_file(const std::string& text);

Expected<std::string> read_policy_file(const std::string& path);

// The template of a file. The other templates, and catalogue.toml, come from the file's directory; of those only the
// ones that it extends must be right.
Expected<policy::CompiledTemplate> compile_policy_file(const std::string& path);

}  // namespace osb::cli
