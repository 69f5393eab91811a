#pragma once

#include <string_view>

namespace osb::cli {

// The new part of `now`, the end of a log that only grows, for a reader that has seen `before`, an earlier end of it:
// everything behind the longest end of `before` that `now` begins with. All of `now` if they have nothing in common.
std::string_view new_part(std::string_view before, std::string_view now);

}  // namespace osb::cli
