#pragma once

#include <concepts>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace osb {

// Texts and numbers written one behind the other. The modules of execd use this and not fmt, whose formatting of
// floating point knows locales: in a static program that is 700 KB of unused locale tables and conversions.
//
//   concat("bytes ", first, '-', last, '/', size)

// At least `width` digits.
inline std::string zero_padded(std::uint64_t value, int width) {
  char digits[32];
  return {digits, static_cast<std::size_t>(std::snprintf(digits, sizeof digits, "%0*llu", width < 20 ? width : 20,
                                                         static_cast<unsigned long long>(value)))};
}

inline std::string to_hex(std::uint64_t value) {
  char digits[24];
  return {digits, static_cast<std::size_t>(
                      std::snprintf(digits, sizeof digits, "%llx", static_cast<unsigned long long>(value)))};
}

namespace detail {

inline void append_part(std::string& out, std::string_view text) { out += text; }
inline void append_part(std::string& out, char c) { out += c; }
template <std::integral T>
  requires(!std::same_as<T, char>)
void append_part(std::string& out, T value) {
  out += std::to_string(value);
}

}  // namespace detail

template <typename... Parts>
std::string concat(const Parts&... parts) {
  std::string out;
  (detail::append_part(out, parts), ...);
  return out;
}

}  // namespace osb
