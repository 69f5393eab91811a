#pragma once

#include <algorithm>
#include <ranges>
#include <string>
#include <string_view>
#include <utility>

namespace osb {

// Words of protocols and settings: ASCII, whatever the locale is.

inline constexpr std::string_view kBlanks = " \t\r\n\v\f";

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
constexpr bool is_letter_or_digit(char c) { return is_letter(c) || is_digit(c); }
// Of URIs (RFC 3986): never escaped.
constexpr bool is_unreserved(char c) { return is_letter_or_digit(c) || c == '-' || c == '.' || c == '_' || c == '~'; }
constexpr char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }
constexpr char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - ('a' - 'A')) : c; }

inline std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = lower(c);
  return out;
}

inline std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = upper(c);
  return out;
}

inline bool equals_ignoring_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return lower(x) == lower(y); });
}

inline bool has_control_byte(std::string_view text) {
  return std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

inline bool is_blank(std::string_view text) { return text.find_first_not_of(kBlanks) == std::string_view::npos; }

// A part of `text`, without the blanks at both ends.
inline std::string_view trimmed(std::string_view text, std::string_view blanks = kBlanks) {
  const auto first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

// "a, b, c"
template <std::ranges::input_range Words>
std::string joined(const Words& words, std::string_view separator = ", ") {
  std::string out;
  for (bool first = true; const std::string_view word : words) {
    if (!std::exchange(first, false)) out += separator;
    out += word;
  }
  return out;
}

}  // namespace osb
