#pragma once

#include <string>
#include <string_view>

#include "execd/path/path.h"

namespace osb::execd {

struct Expanded {
  std::string text;
  std::string_view missing;  // part of the input: the first name that is not defined, of which nothing became
};

// Replaces "$NAME" and "${NAME}" from `env`. A '$' that starts no name stays.
Expanded expand_variables(std::string_view text, const Environment& env);

}  // namespace osb::execd
