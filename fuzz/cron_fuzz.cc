// Schedules and the rules of time zones: the next moment lies behind the given one, at the start of a second that the
// schedule names again when asked from just before it.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/cron.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  // "SCHEDULE|RULE"
  const std::size_t bar = text.find('|');
  osb::TimeZone zone;
  if (bar != std::string_view::npos) {
    const std::string_view rule = text.substr(bar + 1);
    if (const auto parsed = osb::TimeZone::parse(rule)) zone = *parsed;
    if (const auto parsed = osb::TimeZone::from_file(rule)) zone = *parsed;
  }
  const auto schedule = osb::CronSchedule::parse(text.substr(0, bar));
  if (!schedule) return 0;
  const std::chrono::sys_seconds now(std::chrono::seconds(1'790'000'000));
  const auto next = schedule->next(now, zone);
  if (!next) return 0;
  if (*next <= now) std::abort();
  const auto after_it = schedule->next(*next, zone);
  if (after_it && *after_it <= *next) std::abort();
  return 0;
}
