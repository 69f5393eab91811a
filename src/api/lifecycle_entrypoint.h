#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace osb::api {

// The words that a backend executes. An entrypoint of one string that contains a space is a command line: it is split
// as a shell splits it (quotes and backslashes; nothing is expanded). Every other entrypoint is taken as it is.
// A quote that is not closed and a backslash at the end are Code::InvalidRequest and name /entrypoint.
Result<std::vector<std::string>> entrypoint_words(const std::vector<std::string>& entrypoint);

}  // namespace osb::api
