#include "cli/args/values.h"

#include <charconv>
#include <cstdlib>
#include <limits>

#include "base/text.h"

namespace osb::cli {
namespace {

constexpr std::int64_t kMaxSeconds = 100LL * 366 * 24 * 3600;  // far away, and safe to add to any clock

// A number at the front of `text`, which loses it.
std::optional<std::int64_t> take_number(std::string_view& text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || text.front() == '-' || number > kMaxSeconds) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

}  // namespace

std::optional<std::chrono::seconds> parse_cli_duration(std::string_view text) {
  text = trimmed(text);
  if (text.empty()) return std::nullopt;
  std::int64_t total = 0;
  constexpr std::pair<char, std::int64_t> kUnits[] = {{'h', 3600}, {'m', 60}, {'s', 1}};
  std::size_t unit = 0;
  for (bool first = true; !text.empty(); first = false) {
    const auto number = take_number(text);
    if (!number) return std::nullopt;
    if (first && text.empty()) return std::chrono::seconds(*number);
    while (unit < std::size(kUnits) && (text.empty() || text.front() != kUnits[unit].first)) ++unit;
    if (unit == std::size(kUnits)) return std::nullopt;
    total += *number * kUnits[unit++].second;
    text.remove_prefix(1);
    if (total > kMaxSeconds) return std::nullopt;
  }
  return std::chrono::seconds(total);
}

Complaint parse_value(std::string_view text, std::string& out) { return out = text, std::nullopt; }

Complaint parse_value(std::string_view text, Duration& out) {
  const auto parsed = parse_cli_duration(text);
  if (!parsed) return "Invalid duration '" + std::string(text) + "'. Use format like 10m, 1h30m, 90s.";
  out.value = *parsed;
  return std::nullopt;
}

Complaint parse_value(std::string_view text, NullableDuration& out) {
  if (lower(trimmed(text)) == "none") return out.value.reset(), std::nullopt;
  Duration duration;
  if (auto complaint = parse_value(text, duration)) return complaint;
  out.value = duration.value;
  return std::nullopt;
}

Complaint parse_value(std::string_view text, KeyValue& out) {
  const auto equals = text.find('=');
  if (equals == std::string_view::npos) return "Expected KEY=VALUE format, got '" + std::string(text) + "'";
  out = {std::string(text.substr(0, equals)), std::string(text.substr(equals + 1))};
  return std::nullopt;
}

Complaint parse_value(std::string_view text, Mode& out) {
  if (auto complaint = parse_value(text, out.value)) return complaint;
  const auto octal = [](int digits) {
    for (; digits > 0; digits /= 10) {
      if (digits % 10 > 7) return false;
    }
    return true;
  };
  if (out.value < 0 || out.value > 7777 || !octal(out.value)) {
    return "'" + std::string(text) + "' is not a file mode; write its octal digits, such as 644 or 755.";
  }
  return std::nullopt;
}

Complaint parse_value(std::string_view text, double& out) {
  const std::string copy(text);
  char* end = nullptr;
  out = std::strtod(copy.c_str(), &end);
  if (!copy.empty() && *end == '\0') return std::nullopt;
  return "'" + copy + "' is not a valid number.";
}

}  // namespace osb::cli
