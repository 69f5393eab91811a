#include "cli/args/values.h"

#include <gtest/gtest.h>

namespace osb::cli {
namespace {

using std::chrono::seconds;

TEST(CliValuesTest, Durations) {
  const struct {
    const char* text;
    std::optional<seconds> value;
  } rows[] = {
      {"90", seconds(90)},
      {"90s", seconds(90)},
      {"10m", seconds(600)},
      {"1h30m", seconds(5400)},
      {" 1h1s ", seconds(3601)},
      {"0", seconds(0)},
      {"", {}},
      {"h", {}},
      {"1d", {}},
      {"1m1h", {}},
      {"-5", {}},
      {"1.5h", {}},
      {"5 m", {}},
      {"99999999999999999999", {}},
      {"9999999999s", {}},
  };
  for (const auto& row : rows) EXPECT_EQ(parse_cli_duration(row.text), row.value) << row.text;
}

TEST(CliValuesTest, ADurationCanBeNoneWhereThatMeansForever) {
  NullableDuration value;
  EXPECT_FALSE(parse_value(" NONE ", value));
  EXPECT_FALSE(value.value);
  EXPECT_FALSE(parse_value("2m", value));
  EXPECT_EQ(value.value, seconds(120));
  EXPECT_TRUE(parse_value("never", value));
}

TEST(CliValuesTest, IntegersAreWholeAndFitTheirType) {
  int number = 0;
  EXPECT_FALSE(parse_value("+7", number));
  EXPECT_EQ(number, 7);
  EXPECT_FALSE(parse_value("-7", number));
  EXPECT_EQ(number, -7);
  std::uint16_t port = 0;
  for (const char* bad : {"", "x", "7x", "65536", "-1", "1.0", " 1"}) EXPECT_TRUE(parse_value(bad, port)) << bad;
  std::optional<std::uint16_t> optional;
  EXPECT_FALSE(parse_value("65535", optional));
  EXPECT_EQ(optional, 65535);
}

TEST(CliValuesTest, FileModesAreOctalDigits) {
  Mode mode;
  EXPECT_FALSE(parse_value("0644", mode));
  EXPECT_EQ(mode.value, 644);
  for (const char* bad : {"888", "10000", "-1", "rw"}) EXPECT_TRUE(parse_value(bad, mode)) << bad;
}

TEST(CliValuesTest, AKeyEndsAtTheFirstEqualsSign) {
  KeyValue pair;
  EXPECT_FALSE(parse_value("a=b=c", pair));
  EXPECT_EQ(pair, (KeyValue{"a", "b=c"}));
  EXPECT_FALSE(parse_value("a=", pair));
  EXPECT_EQ(pair.second, "");
  EXPECT_EQ(*parse_value("a", pair), "Expected KEY=VALUE format, got 'a'");
}

}  // namespace
}  // namespace osb::cli
