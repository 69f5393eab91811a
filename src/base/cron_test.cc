#include "base/cron.h"

#include <gtest/gtest.h>

#include "base/time.h"

namespace osb {
namespace {

using std::chrono::sys_seconds;

sys_seconds at(std::string_view text) {
  const auto time = parse_timestamp(text);
  EXPECT_TRUE(time) << text;
  return std::chrono::floor<std::chrono::seconds>(*time);
}

std::string shown(std::optional<sys_seconds> time) {
  return time ? format_timestamp(std::chrono::time_point_cast<Timestamp::duration>(*time)) : "never";
}

const char* const kBerlin = "CET-1CEST,M3.5.0,M10.5.0/3";

TEST(CronSchedule, TheNextMomentLiesBehindTheGivenOne) {
  const struct {
    const char* schedule;
    const char* after;
    const char* want;
  } rows[] = {
      {"* * * * *", "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"},
      {"* * * * *", "2026-01-01T00:00:59Z", "2026-01-01T00:01:00Z"},
      {"*/15 * * * *", "2026-01-01T00:45:00Z", "2026-01-01T01:00:00Z"},
      {"5/20 * * * *", "2026-01-01T00:06:00Z", "2026-01-01T00:25:00Z"},
      {"0 9-17/4 * * mon-FRI", "2026-01-03T10:00:00Z", "2026-01-05T09:00:00Z"},
      {"30 4 1,15 * *", "2026-01-02T00:00:00Z", "2026-01-15T04:30:00Z"},
      {"0 0 1 * 5", "2026-01-02T00:00:00Z", "2026-01-09T00:00:00Z"},
      {"0 0 ? * 7", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"},
      {"0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"},
      {"0 0 29 2 *", "2096-03-01T00:00:00Z", "2104-02-29T00:00:00Z"},
      {"0 0 31 12 *", "2026-12-31T00:00:00Z", "2027-12-31T00:00:00Z"},
      {"0 0 * jan,jul *", "2026-02-01T00:00:00Z", "2026-07-01T00:00:00Z"},
      {"@hourly", "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"},
      {"@weekly", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"},
      {"@yearly", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"},
      {"@every 90s", "2026-01-01T00:00:07Z", "2026-01-01T00:01:37Z"},
      {"CRON_TZ=UTC @daily", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"},
  };
  for (const auto& row : rows) {
    const auto schedule = CronSchedule::parse(row.schedule);
    ASSERT_TRUE(schedule) << row.schedule << ": " << schedule.error().message;
    EXPECT_EQ(shown(schedule->next(at(row.after))), row.want) << row.schedule;
  }
}

TEST(CronSchedule, AMomentThatNeverComesIsNone) {
  for (const char* text : {"0 0 30 2 *", "0 0 31 4,6,9,11 *"}) {
    const auto schedule = CronSchedule::parse(text);
    ASSERT_TRUE(schedule) << text;
    EXPECT_EQ(shown(schedule->next(at("2026-01-01T00:00:00Z"))), "never") << text;
  }
}

TEST(CronSchedule, ItFollowsTheClocksOfItsZone) {
  const auto zone = TimeZone::parse(kBerlin);
  ASSERT_TRUE(zone);
  const struct {
    const char* why;
    const char* schedule;
    const char* after;
    const char* want;
  } rows[] = {
      {"winter", "TZ=Europe/Berlin 0 8 * * *", "2026-01-10T00:00:00Z", "2026-01-10T07:00:00Z"},
      {"summer", "TZ=Europe/Berlin 0 8 * * *", "2026-07-10T00:00:00Z", "2026-07-10T06:00:00Z"},
      {"the hour that is skipped", "TZ=Europe/Berlin 30 2 * * *", "2026-03-29T00:00:00Z", "2026-03-30T00:30:00Z"},
      {"the hour that is repeated", "TZ=Europe/Berlin 30 2 * * *", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"},
      {"midnight of the place", "TZ=Europe/Berlin @daily", "2026-01-10T00:00:00Z", "2026-01-10T23:00:00Z"},
  };
  for (const auto& row : rows) {
    const auto schedule = CronSchedule::parse(row.schedule);
    ASSERT_TRUE(schedule) << row.schedule;
    EXPECT_EQ(schedule->zone(), "Europe/Berlin");
    EXPECT_EQ(shown(schedule->next(at(row.after), *zone)), row.want) << row.why;
  }
}

TEST(CronSchedule, TextThatIsNoScheduleIsRefused) {
  for (const char* text : {"",
                           " ",
                           "* * * *",
                           "* * * * * *",
                           "60 * * * *",
                           "* 24 * * *",
                           "* * 0 * *",
                           "* * 32 * *",
                           "* * * 13 *",
                           "* * * * 8",
                           "*/0 * * * *",
                           "*/x * * * *",
                           "5-1 * * * *",
                           "1,,2 * * * *",
                           "-1 * * * *",
                           "a * * * *",
                           "* * * foo *",
                           "@never",
                           "@every",
                           "@every 0s",
                           "@every -5s",
                           "@every 1500ms",
                           "@every x",
                           "TZ= * * * * *",
                           "TZ=../../etc/passwd * * * * *",
                           "TZ=/etc/localtime * * * * *",
                           "TZ=Europe/Berlin",
                           "+1 * * * *"}) {
    EXPECT_FALSE(CronSchedule::parse(text)) << text;
  }
  EXPECT_FALSE(CronSchedule::parse("0" + std::string(300, ' ') + "* * * *"));
}

}  // namespace
}  // namespace osb
