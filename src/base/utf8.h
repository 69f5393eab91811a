#pragma once

#include <cstddef>
#include <string_view>

namespace osb {

// Length of the well-formed UTF-8 sequence at `p` (1 to 4), or 0 when there is none: stray continuation bytes,
// overlong forms, surrogates, code points above U+10FFFF and sequences cut off by `end`. Needs p < end.
inline std::size_t utf8_sequence_length(const char* p, const char* end) {
  const auto at = [p](std::ptrdiff_t i) { return static_cast<unsigned char>(p[i]); };
  const auto continues = [&](std::ptrdiff_t i) { return (at(i) & 0xC0) == 0x80; };
  const unsigned char lead = at(0);
  const std::ptrdiff_t room = end - p;
  if (lead < 0x80) return 1;
  if (lead < 0xC2) return 0;  // a continuation, or an overlong form of ASCII
  if (lead < 0xE0) return room >= 2 && continues(1) ? 2 : 0;
  if (lead < 0xF0) {
    if (room < 3 || !continues(1) || !continues(2)) return 0;
    const bool overlong = lead == 0xE0 && at(1) < 0xA0;
    const bool surrogate = lead == 0xED && at(1) > 0x9F;
    return overlong || surrogate ? 0 : 3;
  }
  if (lead > 0xF4 || room < 4 || !continues(1) || !continues(2) || !continues(3)) return 0;
  const bool overlong = lead == 0xF0 && at(1) < 0x90;
  const bool too_high = lead == 0xF4 && at(1) > 0x8F;
  return overlong || too_high ? 0 : 4;
}

// Offset of the first byte that is not part of well-formed UTF-8; npos when all of it is.
inline std::size_t find_invalid_utf8(std::string_view text) {
  const char* const end = text.data() + text.size();
  for (const char* p = text.data(); p < end;) {
    const std::size_t length = utf8_sequence_length(p, end);
    if (length == 0) return static_cast<std::size_t>(p - text.data());
    p += length;
  }
  return std::string_view::npos;
}

}  // namespace osb
