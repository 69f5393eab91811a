#include "base/cron.h"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "base/duration.h"
#include "base/json_escape.h"
#include "base/parse_number.h"
#include "base/text.h"

namespace osb {

using std::chrono::days;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using std::chrono::sys_seconds;

namespace {

constexpr std::size_t kMostText = 256;
// Longer than the longest distance between two leap days.
constexpr days kHorizon(366 * 9);

constexpr std::array<std::string_view, 12> kMonths = {"jan", "feb", "mar", "apr", "may", "jun",
                                                      "jul", "aug", "sep", "oct", "nov", "dec"};
constexpr std::array<std::string_view, 7> kWeekdays = {"sun", "mon", "tue", "wed", "thu", "fri", "sat"};

struct Descriptor {
  std::string_view name, fields;
};
constexpr Descriptor kDescriptors[] = {{"@yearly", "0 0 1 1 *"}, {"@annually", "0 0 1 1 *"}, {"@monthly", "0 0 1 * *"},
                                       {"@weekly", "0 0 * * 0"}, {"@daily", "0 0 * * *"},    {"@midnight", "0 0 * * *"},
                                       {"@hourly", "0 * * * *"}};

struct FieldRule {
  std::string_view name;
  unsigned least, most;
  std::span<const std::string_view> names = {};  // of the values from `least`
};

Failure wrong(const FieldRule& rule, std::string_view item, std::string why) {
  return fail(Code::InvalidRequest, std::string(rule.name) + ": " + in_quotes(item) + " " + std::move(why));
}

Result<unsigned> parse_value(const FieldRule& rule, std::string_view text) {
  const auto named = std::ranges::find(rule.names, lower(text));
  if (named != rule.names.end()) return rule.least + static_cast<unsigned>(named - rule.names.begin());
  const auto value = parse_number<unsigned>(text);
  if (!value || *value < rule.least || *value > rule.most) {
    return wrong(rule, text, "is not from " + std::to_string(rule.least) + " to " + std::to_string(rule.most));
  }
  return *value;
}

// One item of a list: "*", "5", "1-5", each with "/step".
Result<std::uint64_t> parse_item(const FieldRule& rule, std::string_view item) {
  const std::size_t slash = item.find('/');
  const std::string_view range = item.substr(0, slash);
  unsigned step = 1;
  if (slash != std::string_view::npos) {
    const auto given = parse_number<unsigned>(item.substr(slash + 1));
    if (!given || *given == 0) return wrong(rule, item, "has no step above 0");
    step = *given;
  }
  unsigned first = rule.least, last = rule.most;
  if (range != "*" && range != "?") {
    const std::size_t dash = range.find('-');
    const auto begin = parse_value(rule, range.substr(0, dash));
    if (!begin) return Failure(begin.error());
    first = *begin;
    if (dash != std::string_view::npos) {
      const auto end = parse_value(rule, range.substr(dash + 1));
      if (!end) return Failure(end.error());
      last = *end;
    } else if (slash == std::string_view::npos) {
      last = first;
    }
    if (last < first) return wrong(rule, item, "ends before it begins");
  }
  std::uint64_t out = 0;
  for (unsigned value = first; value <= last && value >= first; value += std::min(step, rule.most + 1)) {
    out |= std::uint64_t{1} << value;
  }
  return out;
}

Result<std::uint64_t> parse_field(const FieldRule& rule, std::string_view field) {
  std::uint64_t out = 0;
  for (;;) {
    const std::size_t comma = field.find(',');
    const auto item = parse_item(rule, field.substr(0, comma));
    if (!item) return Failure(item.error());
    out |= *item;
    if (comma == std::string_view::npos) return out;
    field.remove_prefix(comma + 1);
  }
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> out;
  constexpr std::string_view kBlank = " \t";
  for (std::size_t at = text.find_first_not_of(kBlank); at != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(kBlank, at), text.size());
    out.push_back(text.substr(at, end - at));
    at = text.find_first_not_of(kBlank, end);
  }
  return out;
}

bool is_any(std::string_view field) { return field.starts_with('*') || field.starts_with('?'); }

bool has(std::uint64_t set, unsigned value) { return (set >> value & 1) != 0; }

}  // namespace

Result<CronSchedule::Fields> CronSchedule::parse_fields(std::string_view text) {
  const auto words = words_of(text);
  if (words.size() != 5) {
    return fail(Code::InvalidRequest, "expected five fields (minute hour day month weekday), @hourly or @every 30s");
  }
  const FieldRule rules[] = {{"minute", 0, 59},
                             {"hour", 0, 23},
                             {"day of month", 1, 31},
                             {"month", 1, 12, kMonths},
                             {"day of week", 0, 7, kWeekdays}};
  Fields out;
  std::uint64_t* const sets[] = {&out.minutes, &out.hours, &out.days, &out.months, &out.weekdays};
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto set = parse_field(rules[i], words[i]);
    if (!set) return Failure(set.error());
    *sets[i] = *set;
  }
  if (has(out.weekdays, 7)) out.weekdays |= 1;  // Sunday has two numbers
  out.any_day = is_any(words[2]);
  out.any_weekday = is_any(words[4]);
  return out;
}

Result<CronSchedule> CronSchedule::parse(std::string_view text) {
  if (text.size() > kMostText) {
    return fail(Code::InvalidRequest, "longer than " + std::to_string(kMostText) + " characters");
  }
  CronSchedule out;
  for (const std::string_view prefix : {"TZ=", "CRON_TZ="}) {
    if (!text.starts_with(prefix)) continue;
    const std::size_t end = std::min(text.find(' '), text.size());
    out.zone_ = text.substr(prefix.size(), end - prefix.size());
    if (!is_time_zone_name(out.zone_)) {
      return fail(Code::InvalidRequest,
                  in_quotes(out.zone_) + " is not the name of a time zone, such as Europe/Berlin");
    }
    if (out.zone_ == "UTC") out.zone_.clear();
    text.remove_prefix(end);
    break;
  }
  const auto words = words_of(text);
  if (words.size() == 2 && words[0] == "@every") {
    const auto every = parse_duration(words[1]);
    if (!every) return Failure(every.error());
    out.every_ = std::chrono::floor<seconds>(*every);
    if (out.every_ != *every || out.every_ < seconds(1)) {
      return fail(Code::InvalidRequest, in_quotes(words[1]) + " is not a positive number of whole seconds");
    }
    return out;
  }
  if (words.size() == 1 && words[0].starts_with('@')) {
    const auto known = std::ranges::find(kDescriptors, words[0], &Descriptor::name);
    if (known == std::end(kDescriptors)) {
      return fail(Code::InvalidRequest,
                  in_quotes(words[0]) + " is not @yearly, @monthly, @weekly, @daily, @hourly or @every 30s");
    }
    text = known->fields;
  }
  const auto fields = parse_fields(text);
  if (!fields) return Failure(fields.error());
  out.fields_ = *fields;
  return out;
}

bool CronSchedule::Fields::has_day(const std::chrono::year_month_day& date) const {
  if (!has(months, static_cast<unsigned>(date.month()))) return false;
  const bool day = has(days, static_cast<unsigned>(date.day()));
  const bool weekday = has(weekdays, std::chrono::weekday(std::chrono::sys_days(date)).c_encoding());
  return any_day || any_weekday ? day && weekday : day || weekday;
}

std::optional<sys_seconds> CronSchedule::next(sys_seconds after, const TimeZone& zone) const {
  if (every_ > seconds(0)) return after + every_;
  const sys_seconds horizon = after + kHorizon;
  // In steps of a minute, or of an hour where the hour or its day is not wanted. Time zones differ by quarters of an
  // hour, so a step to the next full hour of the place passes nothing that is due.
  for (sys_seconds time = std::chrono::floor<minutes>(after) + minutes(1); time < horizon;) {
    const auto local = sys_seconds(time.time_since_epoch() + zone.offset_at(time));
    const auto day = std::chrono::floor<days>(local);
    const std::chrono::hh_mm_ss clock(local - day);
    if (!fields_.has_day(day) || !has(fields_.hours, static_cast<unsigned>(clock.hours().count()))) {
      time += hours(1) - clock.minutes();
    } else if (!has(fields_.minutes, static_cast<unsigned>(clock.minutes().count()))) {
      time += minutes(1);
    } else {
      return time;
    }
  }
  return std::nullopt;
}

}  // namespace osb
