#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/error.h"

namespace osb::sys {

// A whole small file: of /proc, of a cgroup, of /etc. Fails (Code::TooLarge) rather than read more than `limit` bytes.
Result<std::string> read_text(const std::string& path, std::size_t limit = 16 << 20);

// The same of an open file, from its beginning; its offset does not move. `name` is for errors.
Result<std::string> read_text(int fd, const std::string& name, std::size_t limit = 16 << 20);

// One write() into an existing file, as kernel files want it; the file is neither created nor truncated.
Result<void> write_text(const std::string& path, std::string_view text);

// Calls fn(line) for each line, without its end; a last line without one counts too.
template <typename F>
void for_each_line(std::string_view text, F fn) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    fn(text.substr(0, end));
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

}  // namespace osb::sys
