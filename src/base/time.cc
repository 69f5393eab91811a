#include "base/time.h"

#include <algorithm>
#include <cmath>

#include "base/json_escape.h"
#include "base/text.h"
#include "base/timespec.h"

namespace osb {
namespace {

using std::chrono::microseconds;
using std::chrono::seconds;

constexpr std::int64_t kMillisAbove = 20'000'000'000;  // numbers beyond this are milliseconds
constexpr std::int64_t kMicrosPerSecond = 1'000'000;
constexpr std::int64_t kNanosPerSecond = 1'000'000'000;

constexpr std::int64_t kFirstSecond =
    std::chrono::sys_seconds(std::chrono::sys_days(std::chrono::year(1) / 1 / 1)).time_since_epoch().count();
constexpr std::int64_t kLastSecond =
    std::chrono::sys_seconds(std::chrono::sys_days(std::chrono::year(10000) / 1 / 1)).time_since_epoch().count() - 1;

Failure bad(std::string_view text, const char* why) {
  return fail(Code::InvalidRequest, "timestamp " + in_quotes(text) + ": " + why);
}

Result<Timestamp> in_range(std::int64_t second, std::int64_t micros, std::string_view text) {
  if (second < kFirstSecond || second > kLastSecond) return bad(text, "outside the years 0001 to 9999");
  return Timestamp(seconds(second) + microseconds(micros));
}

struct Split {
  std::int64_t second;
  std::int64_t rest;  // not negative
};

// Not std::chrono::floor, which multiplies back and overflows near the ends of the range.
Split split(std::int64_t count, std::int64_t per_second) {
  const std::int64_t rest = count % per_second;
  return rest < 0 ? Split{count / per_second - 1, rest + per_second} : Split{count / per_second, rest};
}

void put_digits(std::string& out, std::int64_t value, int width) {
  char digits[20];
  for (int i = width; i-- > 0; value /= 10) digits[i] = static_cast<char>('0' + value % 10);
  out.append(digits, static_cast<std::size_t>(width));
}

// 2025-01-02T03:04:05, without fraction and zone.
std::string date_and_time(std::int64_t second) {
  const std::chrono::sys_seconds time{seconds(second)};
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::int64_t of_day = (time - day).count();
  std::string out;
  out.reserve(32);
  put_digits(out, static_cast<int>(date.year()), 4);
  out.push_back('-');
  put_digits(out, static_cast<unsigned>(date.month()), 2);
  out.push_back('-');
  put_digits(out, static_cast<unsigned>(date.day()), 2);
  out.push_back('T');
  put_digits(out, of_day / 3600, 2);
  out.push_back(':');
  put_digits(out, of_day / 60 % 60, 2);
  out.push_back(':');
  put_digits(out, of_day % 60, 2);
  return out;
}

// Reads the text from the left; every step says whether it found what it wanted.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}

  bool done() const { return rest_.empty(); }
  char peek() const { return rest_.empty() ? '\0' : rest_.front(); }
  bool one_of(std::string_view chars) {
    if (rest_.empty() || chars.find(rest_.front()) == std::string_view::npos) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool number(int width, int& value) {
    if (rest_.size() < static_cast<std::size_t>(width)) return false;
    value = 0;
    for (int i = 0; i < width; ++i) {
      if (!is_digit(rest_[static_cast<std::size_t>(i)])) return false;
      value = value * 10 + (rest_[static_cast<std::size_t>(i)] - '0');
    }
    rest_.remove_prefix(static_cast<std::size_t>(width));
    return true;
  }
  // Digits as a fraction of a second; digits behind the sixth are read and dropped.
  bool fraction(std::int64_t& micros) {
    std::size_t count = 0;
    micros = 0;
    for (; !rest_.empty() && is_digit(rest_.front()); rest_.remove_prefix(1), ++count) {
      if (count < 6) micros = micros * 10 + (rest_.front() - '0');
    }
    for (std::size_t i = count; i < 6; ++i) micros *= 10;
    return count > 0;
  }

 private:
  std::string_view rest_;
};

// A number in text form, exactly: no detour over floating point.
Result<Timestamp> parse_number(std::string_view text) {
  std::string_view rest = text;
  const bool negative = rest.starts_with('-');
  if (negative || rest.starts_with('+')) rest.remove_prefix(1);
  std::int64_t whole = 0;
  for (; !rest.empty() && is_digit(rest.front()); rest.remove_prefix(1)) {
    whole = whole * 10 + (rest.front() - '0');
    if (whole > kLastSecond * 1000 + 999) return bad(text, "outside the years 0001 to 9999");
  }
  std::int64_t millionths = 0;
  Scanner scan(rest);
  if (!scan.done() && (!scan.one_of(".") || !scan.fraction(millionths) || !scan.done())) {
    return bad(text, "expected RFC 3339 or a unix time");
  }
  const bool millis = whole > kMillisAbove || (whole == kMillisAbove && millionths > 0);
  std::int64_t micros = millis ? (whole % 1000) * 1000 + millionths / 1000 : millionths;
  std::int64_t second = millis ? whole / 1000 : whole;
  if (negative) {
    second = -second - (micros > 0 ? 1 : 0);
    micros = micros > 0 ? kMicrosPerSecond - micros : 0;
  }
  return in_range(second, micros, text);
}

bool looks_like_number(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  return !text.empty() && is_digit(text.front()) && text.find_first_not_of("0123456789.") == std::string_view::npos;
}

}  // namespace

std::string format_timestamp(Timestamp time) {
  const auto [whole, micros] = split(time.time_since_epoch().count(), kMicrosPerSecond);
  const std::int64_t second = std::clamp(whole, kFirstSecond, kLastSecond);
  std::string out = date_and_time(second);
  if (second == whole && micros != 0) {
    out.push_back('.');
    put_digits(out, micros, 6);
  }
  out.push_back('Z');
  return out;
}

std::string format_timestamp_nanos(std::chrono::sys_time<std::chrono::nanoseconds> time) {
  const auto [second, nanos] = split(time.time_since_epoch().count(), kNanosPerSecond);
  return format_timestamp_nanos(timespec{second, nanos});
}

std::string format_timestamp_nanos(const timespec& time) {
  const std::int64_t second = std::clamp(std::int64_t{time.tv_sec}, kFirstSecond, kLastSecond);
  std::string out = date_and_time(second);
  if (second == time.tv_sec && time.tv_nsec > 0 && time.tv_nsec < kNanosPerSecond) {
    out.push_back('.');
    put_digits(out, time.tv_nsec, 9);
    out.erase(out.find_last_not_of('0') + 1);
  }
  out.push_back('Z');
  return out;
}

Result<Timestamp> parse_timestamp(std::string_view text) {
  if (looks_like_number(text)) return parse_number(text);
  Scanner scan(text);
  int year, month, day;
  if (!scan.number(4, year) || !scan.one_of("-") || !scan.number(2, month) || !scan.one_of("-") ||
      !scan.number(2, day)) {
    return bad(text, "expected RFC 3339 or a unix time");
  }
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (year < 1 || !date.ok()) return bad(text, "no such date");
  std::int64_t second = std::chrono::sys_seconds(std::chrono::sys_days(date)).time_since_epoch().count();
  if (scan.done()) return in_range(second, 0, text);

  int hours, minutes, secs = 0;
  if (!scan.one_of("Tt ") || !scan.number(2, hours) || !scan.one_of(":") || !scan.number(2, minutes)) {
    return bad(text, "expected a time behind the date");
  }
  std::int64_t micros = 0;
  if (scan.one_of(":")) {
    if (!scan.number(2, secs)) return bad(text, "expected seconds");
    if (scan.one_of(".") && !scan.fraction(micros)) return bad(text, "expected digits behind the point");
  }
  if (hours > 23 || minutes > 59 || secs > 59) return bad(text, "no such time of day");
  second += hours * 3600 + minutes * 60 + secs;

  if (const char sign = scan.peek(); scan.one_of("+-")) {
    int offset_hours, offset_minutes;
    // The colon may be missing, as in +0200.
    if (!scan.number(2, offset_hours) || (scan.one_of(":"), !scan.number(2, offset_minutes))) {
      return bad(text, "expected an offset like +02:00");
    }
    if (offset_hours > 23 || offset_minutes > 59) return bad(text, "offset out of range");
    const int offset = offset_hours * 3600 + offset_minutes * 60;
    second += sign == '+' ? -offset : offset;
  } else if (!scan.done() && !scan.one_of("Zz")) {
    return bad(text, "expected Z or an offset like +02:00");
  }
  if (!scan.done()) return bad(text, "unexpected characters at the end");
  return in_range(second, micros, text);
}

Result<Timestamp> timestamp_from_number(std::int64_t number) { return parse_number(std::to_string(number)); }

Result<Timestamp> timestamp_from_number(double number) {
  // Also true for NaN and the infinities.
  if (!(std::fabs(number) <= static_cast<double>(kLastSecond) * 1000 + 999)) {
    return fail(Code::InvalidRequest, "timestamp: number outside the years 0001 to 9999");
  }
  const bool millis = std::fabs(number) > static_cast<double>(kMillisAbove);
  const std::int64_t micros = std::llround(number * (millis ? 1e3 : 1e6));
  const auto [second, rest] = split(micros, kMicrosPerSecond);
  return in_range(second, rest, std::to_string(number));
}

Timestamp timestamp_now() { return std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now()); }

std::int64_t unix_millis() {
  const timespec now = timespec_now();
  return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

}  // namespace osb
