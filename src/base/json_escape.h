#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace osb {

// Any bytes become a JSON string that stays on one line under every line-splitting rule clients use (the Python SDK
// follows str.splitlines): `"`, `\`, the C0 controls, U+0085, U+2028 and U+2029 are escaped. A byte that is not part
// of well-formed UTF-8 becomes one U+FFFD; the rest, DEL included, is copied as it is. This is the hot path of execd's
// event streams: clean runs are found 64 bytes at a time and copied whole.

// Appends the string with its quotes.
void append_json_string(std::string& out, std::string_view bytes);

// Room that write_json_escaped may need for `size` bytes of input.
constexpr std::size_t max_json_escaped_size(std::size_t size) { return size * 6; }

// Writes the string without quotes to `out`, where max_json_escaped_size(bytes.size()) bytes must be free, and returns
// the end of what it wrote.
char* write_json_escaped(char* out, std::string_view bytes);

// A foreign string as error messages show it: quoted, escaped and cut after `limit` bytes.
std::string in_quotes(std::string_view bytes, std::size_t limit = 80);

namespace detail {

// How many leading bytes are plain: ASCII, not a control, neither `"` nor `\`. The first is what this machine runs
// (SSE2 on x86-64), the second the portable form; both are here so that tests compare them everywhere.
std::size_t plain_prefix(const char* p, std::size_t size);
std::size_t plain_prefix_portable(const char* p, std::size_t size);

}  // namespace detail
}  // namespace osb
