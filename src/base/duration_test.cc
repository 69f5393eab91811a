#include "base/duration.h"

#include <random>

#include <gtest/gtest.h>

namespace osb {
namespace {

using std::chrono::nanoseconds;

TEST(Duration, ReadsGoSyntax) {
  struct {
    const char* text;
    std::int64_t want;
  } rows[] = {
      {"0", 0},
      {"-0", 0},
      {"0s", 0},
      {"500ms", 500'000'000},
      {"1s", 1'000'000'000},
      {"1m30s", 90'000'000'000},
      {"1.5h", 5'400'000'000'000},
      {"-1s", -1'000'000'000},
      {"+5s", 5'000'000'000},
      {".5s", 500'000'000},
      {"1.s", 1'000'000'000},
      {"3ns", 3},
      {"7us", 7'000},
      {"7\xC2\xB5s", 7'000},
      {"7\xCE\xBCs", 7'000},
      {"0.9ns", 0},
      {"1h1m1s1ms1us1ns", 3'661'001'001'001},
      {"0.3333333333333333333h", 1'199'999'999'999},
      {"9223372036854775807ns", std::numeric_limits<std::int64_t>::max()},
      {"-9223372036854775808ns", std::numeric_limits<std::int64_t>::min()},
      {"2562047h47m16.854775807s", std::numeric_limits<std::int64_t>::max()},
  };
  for (const auto& row : rows) {
    const auto got = parse_duration(row.text);
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(got->count(), row.want) << row.text;
  }
}

TEST(Duration, RefusesWhatIsNoDuration) {
  for (const char* text : {"",
                           "-",
                           "+",
                           "1",
                           "1.5",
                           "s",
                           ".s",
                           "-.s",
                           "1 s",
                           " 1s",
                           "1s ",
                           "1S",
                           "1d",
                           "1x",
                           "1s1",
                           "--1s",
                           "1s-1s",
                           "1e3s",
                           "9223372036854775808ns",
                           "-9223372036854775809ns",
                           "2562048h",
                           "99999999999999999999999999999999999999999h",
                           "9000000000s9000000000s",
                           "\xC2s"}) {
    EXPECT_FALSE(parse_duration(text)) << text;
  }
  EXPECT_EQ(parse_duration("1d").error().message,
            "duration \"1d\": expected a unit (ns, us, ms, s, m, h) behind each number");
}

TEST(Duration, WritesGoSyntax) {
  const auto text = [](std::int64_t ns) { return format_duration(nanoseconds(ns)); };
  EXPECT_EQ(text(0), "0s");
  EXPECT_EQ(text(1), "1ns");
  EXPECT_EQ(text(1'500), "1.5\xC2\xB5s");
  EXPECT_EQ(text(500'000'000), "500ms");
  EXPECT_EQ(text(1'050'000'000), "1.05s");
  EXPECT_EQ(text(90'000'000'000), "1m30s");
  EXPECT_EQ(text(3'600'000'000'000), "1h0m0s");
  EXPECT_EQ(text(-1'000'000'000), "-1s");
  EXPECT_EQ(text(std::numeric_limits<std::int64_t>::min()), "-2562047h47m16.854775808s");
}

TEST(Duration, WhatIsWrittenReadsBackTheSame) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 20000; ++i) {
    const nanoseconds duration(static_cast<std::int64_t>(random()) >> (random() % 64));
    const auto again = parse_duration(format_duration(duration));
    ASSERT_TRUE(again) << again.error().message;
    ASSERT_EQ(*again, duration);
  }
}

}  // namespace
}  // namespace osb
