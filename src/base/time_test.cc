#include "base/time.h"

#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

namespace osb {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

Timestamp at_micros(std::int64_t micros) { return Timestamp(microseconds(micros)); }

TEST(Time, WritesSixDigitsOnlyWhenThereAreMicroseconds) {
  EXPECT_EQ(format_timestamp(at_micros(1735787045'000000)), "2025-01-02T03:04:05Z");
  EXPECT_EQ(format_timestamp(at_micros(1735787045'120000)), "2025-01-02T03:04:05.120000Z");
  EXPECT_EQ(format_timestamp(at_micros(1735787045'000001)), "2025-01-02T03:04:05.000001Z");
  EXPECT_EQ(format_timestamp(at_micros(-1)), "1969-12-31T23:59:59.999999Z");
  EXPECT_EQ(format_timestamp(Timestamp::max()), "9999-12-31T23:59:59Z");
  EXPECT_EQ(format_timestamp(Timestamp::min()), "0001-01-01T00:00:00Z");
}

TEST(Time, WritesNanosecondsWithoutTrailingZeros) {
  const auto at = [](std::int64_t ns) { return format_timestamp_nanos(std::chrono::sys_time(nanoseconds(ns))); };
  EXPECT_EQ(at(1735787045'123456789), "2025-01-02T03:04:05.123456789Z");
  EXPECT_EQ(at(1735787045'120000000), "2025-01-02T03:04:05.12Z");
  EXPECT_EQ(at(1735787050'000000000), "2025-01-02T03:04:10Z");
  EXPECT_EQ(at(-1), "1969-12-31T23:59:59.999999999Z");
  EXPECT_EQ(format_timestamp_nanos(timespec{1735787045, 5}), "2025-01-02T03:04:05.000000005Z");
  EXPECT_EQ(format_timestamp_nanos(timespec{1735787045, 0}), "2025-01-02T03:04:05Z");
  EXPECT_EQ(format_timestamp_nanos(timespec{std::numeric_limits<time_t>::max(), 1}), "9999-12-31T23:59:59Z");
  EXPECT_EQ(at(std::numeric_limits<std::int64_t>::min()).substr(0, 10), "1677-09-21");
}

TEST(Time, ReadsEveryFormTheContractAllows) {
  struct {
    const char* why;
    const char* text;
    const char* want;
  } rows[] = {
      {"plain", "2025-01-02T03:04:05Z", "2025-01-02T03:04:05Z"},
      {"space", "2025-01-02 03:04:05Z", "2025-01-02T03:04:05Z"},
      {"lower case", "2025-01-02t03:04:05z", "2025-01-02T03:04:05Z"},
      {"no zone is UTC", "2025-01-02T03:04:05", "2025-01-02T03:04:05Z"},
      {"no seconds", "2025-01-02T03:04Z", "2025-01-02T03:04:00Z"},
      {"date only is midnight", "2025-01-02", "2025-01-02T00:00:00Z"},
      {"offset", "2025-01-02T03:04:05+02:30", "2025-01-02T00:34:05Z"},
      {"negative offset over midnight", "2025-01-01T23:00:00-02:00", "2025-01-02T01:00:00Z"},
      {"offset without colon", "2025-01-02T03:04:05+0100", "2025-01-02T02:04:05Z"},
      {"short fraction", "2025-01-02T03:04:05.5Z", "2025-01-02T03:04:05.500000Z"},
      {"long fraction is cut", "2025-01-02T03:04:05.1234569999Z", "2025-01-02T03:04:05.123456Z"},
      {"leap year", "2024-02-29T00:00:00Z", "2024-02-29T00:00:00Z"},
      {"leap century", "2000-02-29", "2000-02-29T00:00:00Z"},
      {"first moment", "0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"},
      {"last moment", "9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999Z"},
      {"seconds", "1735787045", "2025-01-02T03:04:05Z"},
      {"seconds with fraction", "1735787045.25", "2025-01-02T03:04:05.250000Z"},
      {"milliseconds", "1735787045120", "2025-01-02T03:04:05.120000Z"},
      {"still seconds", "20000000000", "2603-10-11T11:33:20Z"},
      {"already milliseconds", "20000000001", "1970-08-20T11:33:20.001000Z"},
      {"before 1970", "-1.5", "1969-12-31T23:59:58.500000Z"},
      {"eight digits are a number", "20250102", "1970-08-23T09:01:42Z"},
  };
  for (const auto& row : rows) {
    const auto got = parse_timestamp(row.text);
    ASSERT_TRUE(got) << row.why << ": " << got.error().message;
    EXPECT_EQ(format_timestamp(*got), row.want) << row.why;
  }
}

TEST(Time, RefusesWhatDoesNotExist) {
  for (const char* text : {"",
                           " ",
                           "tomorrow",
                           "2025-13-01",
                           "2025-00-01",
                           "2025-02-29",
                           "2025-04-31",
                           "1900-02-29",
                           "2025-01-32",
                           "2025-01-00",
                           "0000-01-01",
                           "2025-1-2",
                           "2025-01-02T",
                           "2025-01-02T24:00:00Z",
                           "2025-01-02T03:60:00Z",
                           "2025-01-02T03:04:60Z",
                           "2025-01-02T03:04:05.Z",
                           "2025-01-02T03:04:05+24:00",
                           "2025-01-02T03:04:05+02:60",
                           "2025-01-02T03:04:05+2:00",
                           "2025-01-02T03:04:05+02",
                           "2025-01-02T03:04:05ZZ",
                           "2025-01-02T03:04:05 Z",
                           " 2025-01-02",
                           "2025-01-02\n",
                           "+2025-01-02",
                           "-",
                           "+",
                           ".",
                           "1.",
                           ".5",
                           "1.2.3",
                           "1e9",
                           "0x10",
                           "--1",
                           "0001-01-01T00:00:00+00:01",
                           "9999-12-31T23:59:59-00:01",
                           "253402300800000",
                           "99999999999999999999999",
                           "-62135596800001",
                           "-99999999999999999999999"}) {
    const auto got = parse_timestamp(text);
    EXPECT_FALSE(got) << text;
    if (!got) {
      EXPECT_EQ(got.error().code, Code::InvalidRequest);
    }
  }
  EXPECT_FALSE(parse_timestamp(std::string_view("2025-01-02\0", 11)));
}

TEST(Time, ErrorsNameTheText) {
  EXPECT_EQ(parse_timestamp("2025-02-30").error().message, "timestamp \"2025-02-30\": no such date");
}

TEST(Time, NumbersFollowTheSameRule) {
  EXPECT_EQ(timestamp_from_number(std::int64_t{1735787045}), at_micros(1735787045'000000));
  EXPECT_EQ(timestamp_from_number(std::int64_t{1735787045120}), at_micros(1735787045'120000));
  EXPECT_EQ(timestamp_from_number(1735787045.5), at_micros(1735787045'500000));
  EXPECT_EQ(timestamp_from_number(-0.25), at_micros(-250000));
  EXPECT_FALSE(timestamp_from_number(std::numeric_limits<std::int64_t>::max()));
  EXPECT_FALSE(timestamp_from_number(std::numeric_limits<std::int64_t>::min()));
  EXPECT_FALSE(timestamp_from_number(std::nan("")));
  EXPECT_FALSE(timestamp_from_number(std::numeric_limits<double>::infinity()));
  EXPECT_FALSE(timestamp_from_number(1e300));
}

TEST(Time, WhatIsWrittenReadsBackTheSame) {
  std::mt19937_64 random(7);
  std::uniform_int_distribution<std::int64_t> any(-62135596800'000000, 253402300799'999999);
  for (int i = 0; i < 20000; ++i) {
    const Timestamp time = at_micros(any(random));
    const auto again = parse_timestamp(format_timestamp(time));
    ASSERT_TRUE(again) << again.error().message;
    ASSERT_EQ(*again, time);
  }
}

TEST(Time, UnixMillisIsNow) {
  const auto now =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch());
  EXPECT_LE(now.count(), unix_millis());
  EXPECT_LT(unix_millis() - now.count(), 60'000);
}

}  // namespace
}  // namespace osb
