#include "mcp/reply_text.h"

#include <boost/json/serialize.hpp>
#include <gtest/gtest.h>

#include "mcp/encoding.h"
#include "mcp/json_rpc.h"

namespace osb::mcp {
namespace {

constexpr std::size_t kNoLimit = 1'000'000;

// The bytes that a string inside a result takes in a reply, measured.
std::size_t encoded_twice(std::string text) {
  const std::string inner = json::serialize(json::value(*to_text(std::move(text), Encoding::Utf8, true)));
  return json::serialize(json::value(inner)).size() - json::serialize(json::value(R"("")")).size();
}

TEST(ReplyText, CostIsTheEncodedSize) {
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  for (const std::string& text : {std::string("plain"), std::string("a\nb\tc\r\n"), std::string(R"("quoted" \back\)"),
                                  std::string("\x00\x01\x1b\x7f", 4), std::string("ü三😀"), all}) {
    EXPECT_EQ(reply_cost(text), encoded_twice(text)) << text;
  }
}

TEST(ReplyText, PrefixAndSuffixFitAndKeepCharactersWhole) {
  const std::string text = "aü三😀\n\"z";
  for (std::size_t bytes = 0; bytes <= text.size(); ++bytes) {
    for (std::size_t cost = 0; cost <= reply_cost(text); ++cost) {
      const std::string head = text.substr(0, fitting_prefix(text, {bytes, cost}));
      const std::string tail = text.substr(text.size() - fitting_suffix(text, {bytes, cost}));
      for (const std::string& part : {head, tail}) {
        EXPECT_LE(part.size(), bytes);
        EXPECT_LE(reply_cost(part), cost);
        EXPECT_TRUE(to_text(part, Encoding::Utf8, false)) << part;
      }
    }
  }
  EXPECT_EQ(fitting_prefix(text, {kNoLimit, kNoLimit}), text.size());
  EXPECT_EQ(fitting_suffix(text, {kNoLimit, kNoLimit}), text.size());
}

TEST(ReplyText, CutsAtLineEndsInTheOuterHalf) {
  EXPECT_EQ(fitting_lines_prefix("one\ntwo\nthree", {10, kNoLimit}), 8u);
  EXPECT_EQ(fitting_lines_suffix("one\ntwo\nthree", {8, kNoLimit}), 5u);
  EXPECT_EQ(fitting_lines_prefix("a\nlong line", {10, kNoLimit}), 10u) << "the line's end is too far away";
  EXPECT_EQ(fitting_lines_suffix("long line\nb", {10, kNoLimit}), 10u);
  EXPECT_EQ(fitting_lines_suffix("one\ntwo\n", {4, kNoLimit}), 4u) << "it begins with a line already";
}

}  // namespace
}  // namespace osb::mcp
