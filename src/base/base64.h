#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace osb {

std::string encode_base64(std::string_view bytes);
// Standard alphabet, padded. Line breaks are skipped; nothing for anything else.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace osb
