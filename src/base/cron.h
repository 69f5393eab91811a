#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/time_zone.h"

namespace osb {

// When something is due, again and again:
//
//   minute hour day-of-month month day-of-week     numbers, names (JAN, MON), lists, ranges, steps, * and ?
//   @yearly @annually @monthly @weekly @daily @midnight @hourly
//   @every 1h30m                                   a duration (base/duration.h) of whole seconds
//
// each with "TZ=NAME " or "CRON_TZ=NAME " in front, or without: then UTC. As in cron, where both days are restricted,
// one of them is enough. In the hour that a clock skips nothing is due; what is due in an hour that it repeats is due
// twice.
class CronSchedule {
 public:
  static Result<CronSchedule> parse(std::string_view text);

  const std::string& zone() const { return zone_; }  // a name (is_time_zone_name); empty: UTC

  // The first moment behind `after`. Nothing: there is none, as on the 30th of February.
  std::optional<std::chrono::sys_seconds> next(std::chrono::sys_seconds after, const TimeZone& zone = {}) const;

 private:
  struct Fields {
    std::uint64_t minutes = 0, hours = 0, days = 0, months = 0, weekdays = 0;  // bit n is the value n
    bool any_day = false, any_weekday = false;
    bool has_day(const std::chrono::year_month_day& date) const;
  };
  static Result<Fields> parse_fields(std::string_view text);

  std::string zone_;
  std::chrono::seconds every_{};  // zero: `fields_` counts
  Fields fields_;
};

}  // namespace osb
