#pragma once

#include <charconv>
#include <concepts>
#include <optional>
#include <string_view>

namespace osb {

// The whole text as a decimal number: no blanks, no '+', '-' only where T has a sign. Nothing for any other text, for
// an empty one, and for a number that T cannot hold.
template <std::integral T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace osb
