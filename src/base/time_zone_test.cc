#include "base/time_zone.h"

#include <gtest/gtest.h>

#include "base/time.h"

namespace osb {
namespace {

using std::chrono::sys_seconds;

std::int64_t minutes_at(const TimeZone& zone, std::string_view time) {
  const auto moment = parse_timestamp(time);
  EXPECT_TRUE(moment) << time;
  const auto offset = zone.offset_at(std::chrono::floor<std::chrono::seconds>(*moment));
  return std::chrono::floor<std::chrono::minutes>(offset).count();
}

TEST(TimeZone, ARuleSaysHowFarAPlaceIsFromUtc) {
  const struct {
    const char* rule;
    const char* time;
    std::int64_t minutes;
  } rows[] = {
      {"UTC0", "2026-07-01T00:00:00Z", 0},
      {"JST-9", "2026-07-01T00:00:00Z", 540},
      {"<+0530>-5:30", "2026-07-01T00:00:00Z", 330},
      {"<-03>3", "2026-07-01T00:00:00Z", -180},
      {"CET-1CEST,M3.5.0,M10.5.0/3", "2026-03-29T00:59:59Z", 60},
      {"CET-1CEST,M3.5.0,M10.5.0/3", "2026-03-29T01:00:00Z", 120},
      {"CET-1CEST,M3.5.0,M10.5.0/3", "2026-10-25T00:59:59Z", 120},
      {"CET-1CEST,M3.5.0,M10.5.0/3", "2026-10-25T01:00:00Z", 60},
      {"EST5EDT,M3.2.0,M11.1.0", "2026-07-01T00:00:00Z", -240},
      {"AEST-10AEDT,M10.1.0,M4.1.0/3", "2026-01-01T00:00:00Z", 660},
      {"AEST-10AEDT,M10.1.0,M4.1.0/3", "2026-07-01T00:00:00Z", 600},
      {"IST-1GMT0,M10.5.0,M3.5.0/1", "2026-01-01T00:00:00Z", 0},
      {"<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", "2026-01-01T00:00:00Z", 660},
      {"AAA0BBB,J60,J300", "2028-03-01T03:00:00Z", 60},
      {"AAA0BBB,59,300", "2028-02-29T03:00:00Z", 60},
      {"EET-2EEST,M3.4.4/50,M10.4.4/50", "2026-07-01T00:00:00Z", 180},
  };
  for (const auto& row : rows) {
    const auto zone = TimeZone::parse(row.rule);
    ASSERT_TRUE(zone) << row.rule;
    EXPECT_EQ(minutes_at(*zone, row.time), row.minutes) << row.rule << " " << row.time;
  }
}

TEST(TimeZone, TextThatIsNoRuleIsRefused) {
  for (const char* rule : {"", "CET", "C-1", "<CET-1", "CET-1CEST", "CET-1CEST,M3.5.0", "CET-1CEST,M13.5.0,M10.5.0",
                           "CET-1CEST,M3.6.0,M10.5.0", "CET-1CEST,M3.5.7,M10.5.0", "CET-1CEST,J0,J1", "CET-25",
                           "CET-1CEST,M3.5.0,M10.5.0/3x", "CET-1:60"}) {
    EXPECT_FALSE(TimeZone::parse(rule)) << rule;
  }
}

TEST(TimeZone, AFileOfTheSystemEndsWithItsRule) {
  const auto zone = TimeZone::from_file(std::string_view("TZif2\0\0\0\nJST-9\n", 15));
  ASSERT_TRUE(zone) << zone.error().message;
  EXPECT_EQ(minutes_at(*zone, "2026-01-01T00:00:00Z"), 540);
  for (const std::string_view content :
       {"", "TZif", "TZif2", "TZif1aa\nJST-9\n", "text\nJST-9\n", "TZif2\nJST-9", "TZif2a\n\n"}) {
    EXPECT_FALSE(TimeZone::from_file(content)) << content;
  }
}

TEST(TimeZone, NamesLeadNowhereElse) {
  for (const char* name : {"UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+5"}) {
    EXPECT_TRUE(is_time_zone_name(name)) << name;
  }
  for (const char* name : {"", "/etc/passwd", "../x", "a/../b", "a b", "a\nb"}) {
    EXPECT_FALSE(is_time_zone_name(name)) << name;
  }
}

}  // namespace
}  // namespace osb
