#pragma once

#include <string>
#include <string_view>

namespace osb {

// A random UUIDv4 as the contract writes ids: lower case, hyphenated, 36 characters. The bytes come from the kernel's
// generator, so an id cannot be guessed and may serve as a token.
//
// Bytes are fetched in small batches per thread and wiped as they are handed out. A child made by fork() without exec
// would repeat its parent's next ids: such a child must not call these.
std::string new_uuid();

// The same without hyphens, 32 characters: command ids and request ids.
std::string new_hex_id();

// A secret of 192 bits: 32 characters of the URL-safe alphabet of base64.
std::string new_token();

// Eight-four-four-four-twelve hexadecimal digits of either case, of any UUID version.
bool is_uuid(std::string_view text);

}  // namespace osb
