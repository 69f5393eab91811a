#include "cli/live/log_overlap.h"

#include <cstddef>
#include <vector>

namespace osb::cli {

std::string_view new_part(std::string_view before, std::string_view now) {
  if (now.starts_with(before)) return now.substr(before.size());
  // Knuth, Morris and Pratt: how much of `now` is matched at the end of `before`.
  std::vector<std::size_t> next(now.size() + 1, 0);
  for (std::size_t i = 1, matched = 0; i < now.size(); ++i) {
    while (matched > 0 && now[i] != now[matched]) matched = next[matched];
    if (now[i] == now[matched]) ++matched;
    next[i + 1] = matched;
  }
  std::size_t matched = 0;
  for (const char c : before) {
    while (matched > 0 && (matched == now.size() || c != now[matched])) matched = next[matched];
    if (matched < now.size() && c == now[matched]) ++matched;
  }
  return now.substr(matched);
}

}  // namespace osb::cli
