#include "http/headers.h"

#include <gtest/gtest.h>

namespace osb::http {
namespace {

TEST(Headers, NamesCompareWithoutCase) {
  const Headers headers{{"Content-Type", "a"}, {"content-type", "b"}, {"X", ""}};
  EXPECT_EQ(headers.get("CONTENT-TYPE"), "a");
  EXPECT_EQ(headers.count("content-Type"), 2U);
  EXPECT_TRUE(headers.contains("x"));
  EXPECT_EQ(headers.find("Y"), nullptr);
  EXPECT_EQ(headers.get("Y"), "");
}

TEST(Headers, SetReplacesEveryFieldOfThatNameInPlace) {
  Headers headers{{"A", "1"}, {"B", "2"}, {"a", "3"}, {"C", "4"}};
  headers.set("A", "5");
  ASSERT_EQ(headers.size(), 3U);
  EXPECT_EQ(headers.begin()->value, "5");
  EXPECT_EQ(headers.count("a"), 1U);
  headers.set("D", "6");
  EXPECT_EQ(headers.get("d"), "6");
}

TEST(Headers, RemoveTakesAViewOfAFieldItRemoves) {
  Headers headers{{"Set-Cookie", "1"}, {"X", "2"}, {"set-cookie", "3"}};
  headers.remove(headers.begin()->name);
  ASSERT_EQ(headers.size(), 1U);
  EXPECT_EQ(headers.begin()->name, "X");
}

TEST(Headers, TokensAreFoundInListsAndInRepeatedLines) {
  const Headers headers{{"Connection", "keep-alive ,\tUpgrade"}, {"connection", "X-Drop"}};
  EXPECT_TRUE(headers.has_token("Connection", "keep-alive"));
  EXPECT_TRUE(headers.has_token("Connection", "upgrade"));
  EXPECT_TRUE(headers.has_token("Connection", "x-drop"));
  EXPECT_FALSE(headers.has_token("Connection", "keep"));
  EXPECT_FALSE(headers.has_token("Connection", "close"));
}

TEST(Headers, CaseFoldingIsAsciiOnly) {
  EXPECT_TRUE(iequals("aZ-09", "Az-09"));
  EXPECT_FALSE(iequals("[", "{"));
  EXPECT_FALSE(iequals("@", "`"));
  EXPECT_FALSE(iequals("\xC4", "\xE4"));
  EXPECT_FALSE(iequals("a", "ab"));
}

TEST(Headers, TrimTakesBlanksAndTabsOnly) {
  EXPECT_EQ(trim_ows(" \ta b\t "), "a b");
  EXPECT_EQ(trim_ows(" \t "), "");
  EXPECT_EQ(trim_ows("\ra\n"), "\ra\n");
}

TEST(Headers, WipingOverwritesValuesInPlace) {
  Headers headers{{"Authorization", "Bearer a-secret-that-is-longer-than-a-short-string"}, {"A", "b"}};
  const std::string& value = *headers.find("authorization");
  const std::size_t size = value.size();
  headers.wipe();
  EXPECT_EQ(value, std::string(size, '\0'));
  EXPECT_EQ(headers.get("A"), std::string(1, '\0'));
}

TEST(Headers, ValuesCanBeChangedInPlace) {
  Headers headers{{"A", "x"}, {"B", "y"}};
  headers.change_values([](std::string& value) { value += "!"; });
  EXPECT_EQ(headers.get("A"), "x!");
  EXPECT_EQ(headers.get("B"), "y!");
}

}  // namespace
}  // namespace osb::http
