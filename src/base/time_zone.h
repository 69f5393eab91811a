#pragma once

#include <chrono>
#include <optional>
#include <string_view>

#include "base/error.h"

namespace osb {

// A place's distance from UTC, now and in the future, as the rule of POSIX TZ says: "CET-1CEST,M3.5.0,M10.5.0/3". Past
// changes of a place's rules are not known. A default one is UTC.
class TimeZone {
 public:
  // The rule itself.
  static Result<TimeZone> parse(std::string_view rule);
  // The content of a file of /usr/share/zoneinfo (RFC 8536), which ends with its rule.
  static Result<TimeZone> from_file(std::string_view content);

  // How much more than UTC the place's clocks show.
  std::chrono::seconds offset_at(std::chrono::sys_seconds time) const;

 private:
  // The day and second at which clocks change, by the clock that is valid before.
  struct Change {
    enum class Day { Julian, Ordinal, Week } day = Day::Week;
    int number = 0;  // of the day in the year: Julian from 1 without a leap day, Ordinal from 0
    int month = 1, week = 1, weekday = 0;
    std::chrono::seconds at{7200};
    std::chrono::local_seconds in(std::chrono::year year) const;
  };
  struct Summer {
    std::chrono::seconds offset{};
    Change begin, end;
  };
  struct Reader;

  std::chrono::seconds standard_{};
  std::optional<Summer> summer_;
};

// A name below /usr/share/zoneinfo that leads nowhere else: "Europe/Berlin".
bool is_time_zone_name(std::string_view name);

}  // namespace osb
