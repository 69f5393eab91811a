#include "base/duration.h"

#include <cstdint>
#include <limits>

#include "base/json_escape.h"
#include "base/text.h"

namespace osb {
namespace {

using Wide = unsigned __int128;

struct Unit {
  std::string_view name;
  std::uint64_t nanos;
};

// A longer name stands before the one it begins with.
constexpr Unit kUnits[] = {
    {"ns", 1},
    {"us", 1'000},
    {"\xC2\xB5s", 1'000},  // U+00B5 micro sign
    {"\xCE\xBCs", 1'000},  // U+03BC Greek mu
    {"ms", 1'000'000},
    {"s", 1'000'000'000},
    {"m", 60'000'000'000},
    {"h", 3'600'000'000'000},
};

constexpr Wide kMostNegative = Wide{1} << 63;

Failure bad(std::string_view text, const char* why) {
  return fail(Code::InvalidRequest, "duration " + in_quotes(text) + ": " + why);
}

std::string decimal(std::uint64_t whole, std::uint64_t fraction, int digits, std::string_view unit) {
  std::string out = std::to_string(whole);
  if (fraction != 0) {
    std::string behind = std::to_string(fraction);
    behind.insert(0, static_cast<std::size_t>(digits) - behind.size(), '0');
    out += '.' + behind.substr(0, behind.find_last_not_of('0') + 1);
  }
  return out.append(unit);
}

}  // namespace

Result<std::chrono::nanoseconds> parse_duration(std::string_view text) {
  std::string_view rest = text;
  const bool negative = rest.starts_with('-');
  if (negative || rest.starts_with('+')) rest.remove_prefix(1);
  if (rest == "0") return std::chrono::nanoseconds(0);
  if (rest.empty()) return bad(text, "expected a number and a unit, like 1m30s");

  Wide total = 0;
  while (!rest.empty()) {
    Wide whole = 0;
    Wide fraction = 0;
    Wide scale = 1;
    bool digits = false;
    for (; !rest.empty() && is_digit(rest.front()); rest.remove_prefix(1), digits = true) {
      whole = whole * 10 + static_cast<unsigned>(rest.front() - '0');
      if (whole > kMostNegative) return bad(text, "too long");
    }
    if (rest.starts_with('.')) {
      rest.remove_prefix(1);
      for (; !rest.empty() && is_digit(rest.front()); rest.remove_prefix(1), digits = true) {
        if (scale >= 1'000'000'000'000'000'000) continue;  // far below a nanosecond, even in hours
        fraction = fraction * 10 + static_cast<unsigned>(rest.front() - '0');
        scale *= 10;
      }
    }
    if (!digits) return bad(text, "expected a number");
    const Unit* unit = nullptr;
    for (const Unit& candidate : kUnits) {
      if (rest.starts_with(candidate.name)) {
        unit = &candidate;
        break;
      }
    }
    if (unit == nullptr) return bad(text, "expected a unit (ns, us, ms, s, m, h) behind each number");
    rest.remove_prefix(unit->name.size());
    total += whole * unit->nanos + fraction * unit->nanos / scale;
    if (total > kMostNegative) return bad(text, "too long");
  }
  if (!negative && total == kMostNegative) return bad(text, "too long");
  // Through unsigned arithmetic: the most negative value has no positive counterpart.
  const auto magnitude = static_cast<std::uint64_t>(total);
  return std::chrono::nanoseconds(static_cast<std::int64_t>(negative ? 0 - magnitude : magnitude));
}

std::string format_duration(std::chrono::nanoseconds duration) {
  const std::int64_t count = duration.count();
  if (count == 0) return "0s";
  const std::uint64_t nanos = count < 0 ? 0 - static_cast<std::uint64_t>(count) : static_cast<std::uint64_t>(count);
  std::string out = count < 0 ? "-" : "";
  if (nanos < 1'000) return out + decimal(nanos, 0, 0, "ns");
  if (nanos < 1'000'000) return out + decimal(nanos / 1'000, nanos % 1'000, 3, "\xC2\xB5s");
  if (nanos < 1'000'000'000) return out + decimal(nanos / 1'000'000, nanos % 1'000'000, 6, "ms");
  const std::uint64_t seconds = nanos / 1'000'000'000;
  if (seconds >= 3600) out += std::to_string(seconds / 3600) + "h";
  if (seconds >= 60) out += std::to_string(seconds / 60 % 60) + "m";
  return out + decimal(seconds % 60, nanos % 1'000'000'000, 9, "s");
}

}  // namespace osb
