#pragma once

#include <cstddef>
#include <string_view>

namespace opensandbox {

// The JSON of a line of an event stream, with or without "data:" in front; empty for what carries none.
inline std::string_view event_json(std::string_view line) {
  if (line.starts_with("data:")) line.remove_prefix(5);
  while (line.starts_with(' ') || line.starts_with('\t')) line.remove_prefix(1);
  return line.starts_with('{') ? line : std::string_view();
}

// No event is longer: the contract's clients refuse lines above 4 MiB.
inline constexpr std::size_t kLongestLine = 64 * 1024 * 1024;

}  // namespace opensandbox
