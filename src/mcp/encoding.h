#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace osb::mcp {

// How a file's bytes become the text of a message and back.
enum class Encoding { Utf8, Ascii, Latin1, Base64 };
// "utf-8", "ascii", "latin-1", "base64" and their usual spellings, in any case.
Result<Encoding> parse_encoding(std::string_view name);
// An error when the bytes are not text of that encoding. `lossy` puts U+FFFD there instead: for parts of files that may
// begin and end inside a character.
Result<std::string> to_text(std::string bytes, Encoding encoding, bool lossy);
Result<std::string> to_bytes(std::string text, Encoding encoding);

}  // namespace osb::mcp
