#include "base/time_zone.h"

#include <algorithm>

#include "base/json_escape.h"
#include "base/text.h"

namespace osb {

using std::chrono::days;
using std::chrono::local_days;
using std::chrono::local_seconds;
using std::chrono::seconds;
using std::chrono::sys_seconds;

namespace {

constexpr int kMostHours = 167;  // of a change; RFC 8536 allows more than a day
constexpr std::size_t kMostName = 64;

}  // namespace

struct TimeZone::Reader {
  std::string_view rest;

  bool take(char c) {
    if (!rest.starts_with(c)) return false;
    rest.remove_prefix(1);
    return true;
  }

  std::optional<int> number(int least, int most) {
    int value = 0;
    std::size_t size = 0;
    for (; size < rest.size() && is_digit(rest[size]) && size < 4; ++size) value = value * 10 + (rest[size] - '0');
    rest.remove_prefix(size);
    if (size == 0 || value < least || value > most) return std::nullopt;
    return value;
  }

  // "CET", "<+0330>"
  bool name() {
    const bool quoted = take('<');
    std::size_t size = 0;
    const auto part_of_name = [&](char c) { return is_letter(c) || (quoted && (is_digit(c) || c == '+' || c == '-')); };
    while (size < rest.size() && part_of_name(rest[size])) ++size;
    rest.remove_prefix(size);
    return size >= 3 && (!quoted || take('>'));
  }

  // [+-]hh[:mm[:ss]]
  std::optional<seconds> time(int most_hours) {
    const bool negative = take('-');
    if (!negative) (void)take('+');
    const auto hours = number(0, most_hours);
    if (!hours) return std::nullopt;
    int total = *hours * 3600;
    for (const int unit : {60, 1}) {
      if (!take(':')) break;
      const auto part = number(0, 59);
      if (!part) return std::nullopt;
      total += *part * unit;
    }
    return seconds(negative ? -total : total);
  }

  std::optional<Change> change() {
    Change out;
    if (take('M')) {
      const auto month = number(1, 12);
      const auto week = month && take('.') ? number(1, 5) : std::nullopt;
      const auto weekday = week && take('.') ? number(0, 6) : std::nullopt;
      if (!weekday) return std::nullopt;
      out.month = *month, out.week = *week, out.weekday = *weekday;
    } else {
      out.day = take('J') ? Change::Day::Julian : Change::Day::Ordinal;
      const auto day = out.day == Change::Day::Julian ? number(1, 365) : number(0, 365);
      if (!day) return std::nullopt;
      out.number = *day;
    }
    if (take('/')) {
      const auto at = time(kMostHours);
      if (!at) return std::nullopt;
      out.at = *at;
    }
    return out;
  }

  // Everything behind the name of summer time.
  std::optional<Summer> summer(seconds standard) {
    Summer out{standard + std::chrono::hours(1), {}, {}};
    if (!rest.starts_with(',')) {
      const auto west = time(24);
      if (!west) return std::nullopt;
      out.offset = -*west;
    }
    const auto begin = take(',') ? change() : std::nullopt;
    const auto end = begin && take(',') ? change() : std::nullopt;
    if (!end) return std::nullopt;
    out.begin = *begin, out.end = *end;
    return out;
  }
};

local_seconds TimeZone::Change::in(std::chrono::year year) const {
  using namespace std::chrono;
  local_days date;
  if (day == Day::Week) {
    const auto month_of_year = year / std::chrono::month(static_cast<unsigned>(month));
    const std::chrono::weekday wanted(static_cast<unsigned>(weekday));
    date = week == 5 ? local_days(month_of_year / wanted[last])
                     : local_days(month_of_year / wanted[static_cast<unsigned>(week)]);
  } else {
    const bool behind_leap_day = day == Day::Julian && year.is_leap() && number >= 60;
    date = local_days(year / January / 1) + days(day == Day::Julian ? number - 1 + behind_leap_day : number);
  }
  return date + at;
}

Result<TimeZone> TimeZone::parse(std::string_view rule) {
  const auto wrong = [&] { return fail(Code::InvalidRequest, in_quotes(rule) + " is no rule of a time zone"); };
  Reader reader{rule};
  TimeZone out;
  const auto west = reader.name() ? reader.time(24) : std::nullopt;
  if (!west) return wrong();
  out.standard_ = -*west;
  if (reader.rest.empty()) return out;
  if (reader.name()) out.summer_ = reader.summer(out.standard_);
  if (!out.summer_ || !reader.rest.empty()) return wrong();
  return out;
}

Result<TimeZone> TimeZone::from_file(std::string_view content) {
  const auto wrong = [] { return fail(Code::InvalidRequest, "not a file with a time zone's rule"); };
  if (!content.starts_with("TZif") || content.size() < 6 || content[4] < '2' || !content.ends_with('\n')) {
    return wrong();
  }
  content.remove_suffix(1);
  const std::size_t before = content.rfind('\n');
  if (before == std::string_view::npos) return wrong();
  return parse(content.substr(before + 1));
}

seconds TimeZone::offset_at(sys_seconds time) const {
  if (!summer_) return standard_;
  const auto local = local_seconds(time.time_since_epoch() + standard_);
  const std::chrono::year year = std::chrono::year_month_day(std::chrono::floor<days>(local)).year();
  // Both as moments of UTC.
  const auto begin = sys_seconds(summer_->begin.in(year).time_since_epoch() - standard_);
  const auto end = sys_seconds(summer_->end.in(year).time_since_epoch() - summer_->offset);
  const bool summer = begin < end ? begin <= time && time < end : !(end <= time && time < begin);
  return summer ? summer_->offset : standard_;
}

bool is_time_zone_name(std::string_view name) {
  if (name.empty() || name.size() > kMostName || name.contains("..") || name.starts_with('/')) return false;
  return std::ranges::all_of(
      name, [](char c) { return is_letter(c) || is_digit(c) || c == '/' || c == '_' || c == '+' || c == '-'; });
}

}  // namespace osb
