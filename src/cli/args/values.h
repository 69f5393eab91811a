#pragma once

#include <chrono>
#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/parse_number.h"

namespace osb::cli {

// How the text of an option becomes its value. parse_value() returns what is wrong with it, or nothing.
using Complaint = std::optional<std::string>;

// Digits only mean seconds; else hours, minutes and seconds in this order, each optional: "90s", "10m", "1h30m".
struct Duration {
  std::chrono::seconds value{0};
};

// A duration, or the word "none".
struct NullableDuration {
  std::optional<std::chrono::seconds> value;
};

// Split at the first '='; the value may be empty.
using KeyValue = std::pair<std::string, std::string>;

// File modes are written as their octal digits and travel as that decimal number: 755, and 0644 is 644.
struct Mode {
  int value = 0;
};

std::optional<std::chrono::seconds> parse_cli_duration(std::string_view text);

Complaint parse_value(std::string_view text, std::string& out);
Complaint parse_value(std::string_view text, Duration& out);
Complaint parse_value(std::string_view text, NullableDuration& out);
Complaint parse_value(std::string_view text, KeyValue& out);
Complaint parse_value(std::string_view text, Mode& out);
Complaint parse_value(std::string_view text, double& out);

template <std::integral T>
  requires(!std::same_as<T, bool>)
Complaint parse_value(std::string_view text, T& out) {
  if (text.starts_with('+')) text.remove_prefix(1);
  if (const auto number = parse_number<T>(text)) return out = *number, std::nullopt;
  return "'" + std::string(text) + "' is not a valid integer.";
}

template <typename T>
Complaint parse_value(std::string_view text, std::optional<T>& out) {
  return parse_value(text, out.emplace());
}

// Repeatable options collect.
template <typename T>
Complaint parse_value(std::string_view text, std::vector<T>& out) {
  return parse_value(text, out.emplace_back());
}

template <typename T>
inline constexpr bool kIsList = false;
template <typename T>
inline constexpr bool kIsList<std::vector<T>> = true;

}  // namespace osb::cli
