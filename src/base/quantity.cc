#include "base/quantity.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>

#include "base/json_escape.h"
#include "base/text.h"

namespace osb {
namespace {

using Wide = unsigned __int128;

constexpr std::uint64_t kMaxUnsigned = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kMaxSigned = std::numeric_limits<std::int64_t>::max();

Failure bad(std::string_view field, std::string_view text, const char* why) {
  return fail(Code::InvalidRequest, std::string(field) + ": " + in_quotes(text) + " " + why);
}

// A decimal number as written: its digits, and how many of them stand before the point (which may lie outside).
struct Decimal {
  std::string digits;
  std::int64_t point = 0;

  bool is_zero() const { return digits.find_first_not_of('0') == std::string::npos; }
};

// Takes the number off the front of `rest`: 12, 12.5, 12. or .5.
std::optional<Decimal> take_decimal(std::string_view& rest) {
  Decimal number;
  bool point_seen = false;
  for (; !rest.empty() && (is_digit(rest.front()) || (rest.front() == '.' && !point_seen)); rest.remove_prefix(1)) {
    if (rest.front() == '.') {
      point_seen = true;
      continue;
    }
    number.digits.push_back(rest.front());
    if (!point_seen) ++number.point;
  }
  if (number.digits.empty()) return std::nullopt;
  return number;
}

struct Amount {
  std::uint64_t whole = 0;
  bool more = false;  // something was left below one
};

// number * 2^doublings, exactly, in whole units; nothing when they do not fit 64 bits.
std::optional<Amount> whole_units(const Decimal& number, int doublings) {
  if (number.is_zero()) return Amount{};
  const std::int64_t leading = static_cast<std::int64_t>(number.digits.find_first_not_of('0'));
  if (number.point - leading > 20) return std::nullopt;      // more than twenty digits before the point
  if (number.point - leading < -40) return Amount{0, true};  // below one, even after sixty doublings
  const auto size = static_cast<std::int64_t>(number.digits.size());

  Wide whole = 0;
  for (std::int64_t i = leading; i < number.point; ++i) {
    whole = whole * 10 + static_cast<unsigned>(i < size ? number.digits[static_cast<std::size_t>(i)] - '0' : 0);
  }
  // The fraction stays a row of decimal digits: doubling it on paper carries exactly what becomes whole.
  std::string fraction;
  if (number.point < size) {
    const std::int64_t from = std::max<std::int64_t>(number.point, 0);
    fraction.assign(static_cast<std::size_t>(from - number.point), 0);
    for (std::int64_t i = from; i < size; ++i) {
      fraction.push_back(static_cast<char>(number.digits[static_cast<std::size_t>(i)] - '0'));
    }
  }
  for (int i = 0; i < doublings; ++i) {
    int carry = 0;
    for (auto digit = fraction.rbegin(); digit != fraction.rend(); ++digit) {
      const int doubled = *digit * 2 + carry;
      carry = doubled / 10;
      *digit = static_cast<char>(doubled % 10);
    }
    whole = whole * 2 + static_cast<unsigned>(carry);
    if (whole > kMaxUnsigned) return std::nullopt;
  }
  if (whole > kMaxUnsigned) return std::nullopt;
  return Amount{static_cast<std::uint64_t>(whole), fraction.find_first_not_of('\0') != std::string::npos};
}

struct Suffix {
  std::string_view name;
  int decimal_exponent;
  int doublings;
};

constexpr Suffix kSuffixes[] = {
    {"", 0, 0},    {"n", -9, 0},  {"u", -6, 0},  {"m", -3, 0},  {"k", 3, 0},   {"M", 6, 0},
    {"G", 9, 0},   {"T", 12, 0},  {"P", 15, 0},  {"E", 18, 0},  {"Ki", 0, 10}, {"Mi", 0, 20},
    {"Gi", 0, 30}, {"Ti", 0, 40}, {"Pi", 0, 50}, {"Ei", 0, 60},
};

std::optional<Suffix> find_suffix(std::string_view text) {
  for (const Suffix& suffix : kSuffixes) {
    if (suffix.name == text) return suffix;
  }
  // An exponent: e or E, a sign, digits. (E alone is the suffix above.)
  if (text.size() < 2 || (text[0] != 'e' && text[0] != 'E')) return std::nullopt;
  const bool negative = text[1] == '-';
  text.remove_prefix(negative || text[1] == '+' ? 2 : 1);
  if (text.empty() || !std::ranges::all_of(text, is_digit)) return std::nullopt;
  int exponent = 0;
  // Beyond ten thousand only the direction matters: no number is written with that many digits.
  for (const char c : text) exponent = std::min(exponent * 10 + (c - '0'), 1'000'000);
  return Suffix{"", negative ? -exponent : exponent, 0};
}

Result<std::uint64_t> parse_scaled(std::string_view field, std::string_view text, int extra_exponent) {
  constexpr std::size_t kLongest = 256;  // keeps the paper arithmetic short
  if (text.size() > kLongest) return bad(field, text, "is too long for a quantity");
  std::string_view rest = text;
  const bool negative = rest.starts_with('-');
  if (negative || rest.starts_with('+')) rest.remove_prefix(1);
  auto number = take_decimal(rest);
  const auto suffix = find_suffix(rest);
  if (!number || !suffix) return bad(field, text, "is not a quantity such as 500m, 1.5 or 2Gi");
  if (negative && !number->is_zero()) return bad(field, text, "must not be negative");
  number->point += suffix->decimal_exponent + extra_exponent;
  const auto amount = whole_units(*number, suffix->doublings);
  if (!amount || (amount->more && amount->whole == kMaxUnsigned)) return bad(field, text, "is too large");
  return amount->whole + (amount->more ? 1 : 0);
}

}  // namespace

Result<std::uint64_t> parse_quantity(std::string_view field, std::string_view text) {
  return parse_scaled(field, text, 0);
}

Result<std::uint64_t> parse_quantity_millis(std::string_view field, std::string_view text) {
  return parse_scaled(field, text, 3);
}

Result<std::uint64_t> parse_docker_memory(std::string_view text, std::string_view field) {
  std::string_view rest = trimmed(text);
  std::uint64_t value = 0;
  bool digits = false;
  bool too_large = false;
  for (; !rest.empty() && is_digit(rest.front()); rest.remove_prefix(1), digits = true) {
    const Wide next = Wide{value} * 10 + static_cast<unsigned>(rest.front() - '0');
    too_large = too_large || next > kMaxSigned;
    if (!too_large) value = static_cast<std::uint64_t>(next);
  }
  std::uint64_t base = 1000;
  int power = 0;
  bool good = digits;
  if (!rest.empty()) {
    const auto letter = std::string_view("kmgt").find(lower(rest.front()));
    if (letter != std::string_view::npos) {
      power = static_cast<int>(letter) + 1;
      rest.remove_prefix(1);
    }
    if (power > 0 && !rest.empty() && lower(rest.front()) == 'i') {
      base = 1024;
      rest.remove_prefix(1);
    } else if (!rest.empty() && lower(rest.front()) == 'b') {
      rest.remove_prefix(1);
    }
    good = good && rest.empty();
  }
  if (!good) return bad(field, text, "is not an amount of memory such as 512Mi, 2g or 1073741824");
  for (int i = 0; i < power; ++i) {
    too_large = too_large || Wide{value} * base > kMaxSigned;
    if (!too_large) value *= base;
  }
  if (too_large) return bad(field, text, "is too large");
  return value;
}

Result<std::int64_t> parse_docker_cpu(std::string_view text, std::string_view field) {
  if (text.size() > 256) return bad(field, text, "is too long for a number of cpus");
  std::string_view rest = trimmed(text);
  auto number = take_decimal(rest);
  const bool millis = rest == "m";
  if (!number || !(rest.empty() || millis)) return bad(field, text, "is not a number of cpus such as 500m or 1.5");
  number->point += millis ? 6 : 9;
  const auto amount = whole_units(*number, 0);
  if (!amount || amount->whole > kMaxSigned) return bad(field, text, "is too large");
  if (amount->whole == 0) return bad(field, text, "must be above zero");
  return static_cast<std::int64_t>(amount->whole);
}

Result<int> parse_docker_gpu(std::string_view text, std::string_view field) {
  const std::string_view word = trimmed(text);
  if (equals_ignoring_case(word, "all")) return -1;
  if (word.empty() || !std::ranges::all_of(word, is_digit)) {
    return bad(field, text, "is not a number of GPUs or \"all\"");
  }
  std::int64_t count = 0;
  for (const char c : word) {
    count = count * 10 + (c - '0');
    if (count > std::numeric_limits<int>::max()) return bad(field, text, "is too large");
  }
  if (count == 0) return bad(field, text, "must be at least 1");
  return static_cast<int>(count);
}

}  // namespace osb
