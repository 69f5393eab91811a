#pragma once

#include <string>
#include <string_view>

namespace osb::execd {

// The SHA-256 of `data` (FIPS 180-4) as 64 hexadecimal digits in lower case. execd links no library that has it.
std::string sha256_hex(std::string_view data);

}  // namespace osb::execd
