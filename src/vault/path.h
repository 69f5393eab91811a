#pragma once

#include <string>
#include <string_view>

namespace osb::vault {

// The path of a request as bindings see it.
struct RequestPath {
  std::string normal;   // escapes of letters, digits and -._~ decoded, the others in upper case
  std::string decoded;  // all escapes decoded, again and again: as the most eager server would read it
  // Servers may take it for another path: dot segments, backslashes, control bytes, broken escapes or an escape inside
  // an escape, in any layer. A single %2F is none of these.
  bool ambiguous = false;
};

// `path` begins with '/' and ends before '?'.
RequestPath read_path(std::string_view path);

// `pattern` is normal: equal, or a prefix if it ends with '*'.
bool path_matches(std::string_view pattern, std::string_view path);

// Whether some path matches both.
bool paths_overlap(std::string_view a, std::string_view b);

}  // namespace osb::vault
