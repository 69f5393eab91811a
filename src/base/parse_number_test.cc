#include "base/parse_number.h"

#include <cstdint>

#include <gtest/gtest.h>

namespace osb {
namespace {

TEST(ParseNumber, TakesWholeDecimalNumbersThatFit) {
  EXPECT_EQ(parse_number<int>("0"), 0);
  EXPECT_EQ(parse_number<int>("-12"), -12);
  EXPECT_EQ(parse_number<std::uint16_t>("65535"), 65535);
  EXPECT_EQ(parse_number<std::uint64_t>("18446744073709551615"), UINT64_MAX);
  for (const char* text : {"", " 1", "1 ", "+1", "1x", "0x10", "1.0", "--1", "65536", "-1"}) {
    EXPECT_FALSE(parse_number<std::uint16_t>(text)) << text;
  }
}

}  // namespace
}  // namespace osb
