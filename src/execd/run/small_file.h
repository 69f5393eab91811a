#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace osb::execd {

// The text of a regular file, at most `limit` bytes of it; nothing if there is none or it cannot be read. Never waits,
// as opening a FIFO would.
std::optional<std::string> read_small_file(const std::string& path, std::size_t limit);

}  // namespace osb::execd
