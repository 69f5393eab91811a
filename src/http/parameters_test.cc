#include "http/parameters.h"

#include <gtest/gtest.h>

namespace osb::http {
namespace {

TEST(Parameters, TakesQuotedAndPlainValues) {
  const auto parsed = parse_parameters(" form-data ; Name = \"a;b\" ;x=y z;; e=\"\" ; empty=");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->value, "form-data");
  EXPECT_EQ(*parsed->find("name"), "a;b");
  EXPECT_EQ(*parsed->find("X"), "y z");
  EXPECT_EQ(*parsed->find("e"), "");
  EXPECT_EQ(*parsed->find("empty"), "");
  EXPECT_EQ(parsed->find("none"), nullptr);
}

TEST(Parameters, TheFirstOfTwoWins) { EXPECT_EQ(*parse_parameters("a; n=1; N=2")->find("n"), "1"); }

TEST(Parameters, RefusesWhatCannotBeSplit) {
  for (const std::string_view text : {"a; n", "a; n=\"x", "a; =x", "a; n=\"x\"y", "a; n m=x", "a; n=\"x\\\""}) {
    EXPECT_FALSE(parse_parameters(text)) << text;
  }
}

TEST(Parameters, ExtendedValuesBecomeUtf8) {
  EXPECT_EQ(decode_extended_value("UTF-8''%e2%82%ac%20x"), "\xE2\x82\xAC x");
  EXPECT_EQ(decode_extended_value("iso-8859-1'en'%A3"), "\xC2\xA3");
  EXPECT_EQ(decode_extended_value("koi8-r''x"), std::nullopt);
  EXPECT_EQ(decode_extended_value("utf-8'x"), std::nullopt);
  EXPECT_EQ(decode_extended_value("x"), std::nullopt);
  EXPECT_EQ(decode_extended_value("utf-8''%zz"), std::nullopt);
}

}  // namespace
}  // namespace osb::http
