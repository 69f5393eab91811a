#include "cli/file/encoding.h"

#include <gtest/gtest.h>

namespace osb::cli {
namespace {

TEST(CliEncodingTest, TextGoesThereAndBack) {
  const std::string text = "gr\xC3\xBC\xC3\x9F dich " + std::string(10'000, 'x');
  const auto latin = convert_encoding(text, "utf-8", "latin1");
  ASSERT_TRUE(latin) << latin.error().message;
  EXPECT_TRUE(latin->starts_with("gr\xFC\xDF"));
  EXPECT_EQ(convert_encoding(*latin, "latin1", "utf-8").value(), text);
}

TEST(CliEncodingTest, ANameThatIsUnknownIsTheOneThatIsBlamed) {
  EXPECT_EQ(convert_encoding("a", "utf-8", "klingon").error().message, "Unknown encoding 'klingon'.");
  EXPECT_EQ(convert_encoding("a", "klingon", "utf-8").error().message, "Unknown encoding 'klingon'.");
}

TEST(CliEncodingTest, TextThatCannotBeConvertedIsRefused) {
  EXPECT_FALSE(convert_encoding("\xFF", "utf-8", "latin1")) << "no UTF-8";
  EXPECT_FALSE(convert_encoding("\xC3", "utf-8", "latin1")) << "cut inside a letter";
  EXPECT_FALSE(convert_encoding("\xE2\x82\xAC", "utf-8", "latin1")) << "Latin 1 has no euro sign";
}

TEST(CliEncodingTest, NamesOfUtf8) {
  for (const char* name : {"UTF-8", "utf8", "ASCII"}) EXPECT_TRUE(is_utf8(name)) << name;
  EXPECT_FALSE(is_utf8("utf-16"));
}

}  // namespace
}  // namespace osb::cli
