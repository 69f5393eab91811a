#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <time.h>

#include "base/error.h"

namespace osb {

// A moment as the lifecycle API knows it.
using Timestamp = std::chrono::sys_time<std::chrono::microseconds>;

// RFC 3339 in UTC, written with Z. Six fractional digits when the microseconds are not zero, none otherwise:
// 2025-01-02T03:04:05Z, 2025-01-02T03:04:05.120000Z. Moments outside the years 0001 to 9999 have no such form and are
// written as the nearest one that has.
std::string format_timestamp(Timestamp time);

// The form of execd: as many of nine fractional digits as are needed, 2025-01-02T03:04:05.12Z.
std::string format_timestamp_nanos(std::chrono::sys_time<std::chrono::nanoseconds> time);
std::string format_timestamp_nanos(const timespec& time);

// A moment as clients may send it: RFC 3339 with T or a space, seconds optional, no zone meaning UTC, digits after the
// sixth dropped; a date alone, meaning its midnight; a number of seconds since 1970, or of milliseconds when its
// absolute value is above 2e10. Dates that do not exist, offsets of a day or more, leap seconds and results outside the
// years 0001 to 9999 are errors.
Result<Timestamp> parse_timestamp(std::string_view text);

// The same for a JSON number.
Result<Timestamp> timestamp_from_number(std::int64_t number);
Result<Timestamp> timestamp_from_number(double number);

Timestamp timestamp_now();
// Now, in milliseconds since 1970, as in event streams.
std::int64_t unix_millis();

}  // namespace osb
