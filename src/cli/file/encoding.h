#pragma once

#include <string>
#include <string_view>

#include "cli/problem.h"

namespace osb::cli {

// Whether `name` means that bytes need not be changed.
bool is_utf8(std::string_view name);

// Text from one encoding into another, by the names iconv(3) knows. Text that is not in `from`, or that `to` has no
// letters for, is an error.
Expected<std::string> convert_encoding(std::string_view text, const std::string& from, const std::string& to);

}  // namespace osb::cli
