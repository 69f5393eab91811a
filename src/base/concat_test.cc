#include "base/concat.h"

#include <limits>

#include <gtest/gtest.h>

namespace osb {
namespace {

TEST(Concat, WritesTextsAndNumbers) {
  const std::string own = "own";
  EXPECT_EQ(concat(), "");
  EXPECT_EQ(concat("a", std::string_view("b"), own, 'c', -1, 2U, std::uint16_t{3}), "abownc-123");
  EXPECT_EQ(concat(std::numeric_limits<std::int64_t>::min(), ' ', std::numeric_limits<std::uint64_t>::max()),
            "-9223372036854775808 18446744073709551615");
}

TEST(Concat, DigitsArePaddedOrHexadecimal) {
  EXPECT_EQ(zero_padded(7, 2), "07");
  EXPECT_EQ(zero_padded(123, 2), "123");
  EXPECT_EQ(zero_padded(5, 9), "000000005");
  EXPECT_EQ(to_hex(0), "0");
  EXPECT_EQ(to_hex(UINT64_MAX), "ffffffffffffffff");
}

}  // namespace
}  // namespace osb
