// Patterns and names from strangers. The first byte says where the pattern ends.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "execd/file/listing/glob.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  const std::string_view pattern = text.substr(0, data[0]);
  const std::string_view name = text.substr(pattern.size());
  auto glob = osb::execd::Glob::compile(pattern);
  if (!glob) return 0;
  const bool first = glob->matches(name);
  if (glob->matches(name) != first) std::abort();  // must not depend on what was asked before
  // `!(p)` is the opposite of `p` (unless p was at the limits, or a ')' now ends it early).
  if (pattern.find_first_of(")\\") == std::string_view::npos && pattern.size() < 1000) {
    auto inverse = osb::execd::Glob::compile("!(" + std::string(pattern) + ")");
    // "**" at the end spans segments only there.
    if (inverse && name.find('/') == std::string_view::npos && inverse->matches(name) == first) std::abort();
  }
  return 0;
}
