#pragma once

#include <string>

#include "base/error.h"

namespace osb::sys {

// Copies a program to `to`/`name`, with mode 0755. Replaces a file that is there, in one step. The first container of a
// pod provides programs for the others in this way.
Result<void> install_file(const std::string& from, const std::string& to, const std::string& name);

}  // namespace osb::sys
