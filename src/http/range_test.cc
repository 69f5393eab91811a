#include "http/range.h"

#include <gtest/gtest.h>

namespace osb::http {
namespace {

using Kind = RangeRequest::Kind;

void expect_part(std::string_view field, std::uint64_t size, std::uint64_t offset, std::uint64_t length) {
  const RangeRequest range = parse_range(field, size);
  EXPECT_EQ(range.kind, Kind::Part) << field;
  EXPECT_EQ(range.offset, offset) << field;
  EXPECT_EQ(range.length, length) << field;
}

TEST(Range, NoFieldMeansTheWhole) { EXPECT_EQ(parse_range("", 10).kind, Kind::Whole); }

TEST(Range, TakesTheThreeFormsAndClampsTheEnd) {
  expect_part("bytes=0-3", 10, 0, 4);
  expect_part("bytes=9-9", 10, 9, 1);
  expect_part("bytes=4-", 10, 4, 6);
  expect_part("bytes=-3", 10, 7, 3);
  expect_part("bytes=-30", 10, 0, 10);
  expect_part("bytes=4-4000", 10, 4, 6);
  expect_part("bytes=4-99999999999999999999999", 10, 4, 6);
  expect_part("Bytes= 4 - 5 ", 10, 4, 2);
  expect_part("bytes=18446744073709551614-", 18446744073709551615U, 18446744073709551614U, 1);
}

TEST(Range, ServesTheFirstOfSeveral) {
  expect_part("bytes=2-3,0-1", 10, 2, 2);
  expect_part("bytes= ,2-3", 10, 2, 2);
  EXPECT_EQ(parse_range("bytes=20-,0-1", 10).kind, Kind::Unsatisfiable);
}

TEST(Range, StartsBehindTheEndAreUnsatisfiable) {
  for (const std::string_view field : {"bytes=10-", "bytes=10-20", "bytes=99999999999999999999999-", "bytes=-0"}) {
    EXPECT_EQ(parse_range(field, 10).kind, Kind::Unsatisfiable) << field;
  }
  EXPECT_EQ(parse_range("bytes=0-", 0).kind, Kind::Unsatisfiable);
  EXPECT_EQ(parse_range("bytes=-5", 0).kind, Kind::Unsatisfiable);
}

TEST(Range, EverythingElseIsMalformed) {
  for (const std::string_view field : {"bytes", "bytes=", "bytes=-", "bytes=a-b", "bytes=3-1", "bytes=1", "lines=0-1",
                                       "0-1", "bytes=+1-2", "bytes=0x1-2", "bytes=1-2-3", "bytes=0-1,x", "bytes=--1"}) {
    EXPECT_EQ(parse_range(field, 10).kind, Kind::Malformed) << field;
  }
}

TEST(Range, ContentRangeNamesFirstAndLastByte) {
  EXPECT_EQ(content_range(2, 3, 10), "bytes 2-4/10");
  EXPECT_EQ(unsatisfied_content_range(10), "bytes */10");
}

const HttpTime kExample{std::chrono::seconds(784111777)};  // the example of RFC 9110

TEST(HttpDate, WritesTheFixedForm) {
  EXPECT_EQ(format_http_date(kExample), "Sun, 06 Nov 1994 08:49:37 GMT");
  EXPECT_EQ(format_http_date(HttpTime()), "Thu, 01 Jan 1970 00:00:00 GMT");
  EXPECT_EQ(format_http_date(HttpTime(std::chrono::seconds(-1))), "Wed, 31 Dec 1969 23:59:59 GMT");
}

TEST(HttpDate, ReadsTheThreeForms) {
  EXPECT_EQ(parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT"), kExample);
  EXPECT_EQ(parse_http_date("Sunday, 06-Nov-94 08:49:37 GMT"), kExample);
  EXPECT_EQ(parse_http_date("Sun Nov  6 08:49:37 1994"), kExample);
  EXPECT_EQ(parse_http_date("Wed Nov 16 08:49:37 1994"), kExample + std::chrono::days(10));
  EXPECT_EQ(parse_http_date("Thursday, 01-Jan-26 00:00:00 GMT"), parse_http_date("Thu, 01 Jan 2026 00:00:00 GMT"));
}

TEST(HttpDate, ReadsItsOwnOutput) {
  for (std::int64_t second = -5'000'000'000; second < 20'000'000'000; second += 97'654'321) {
    const HttpTime time{std::chrono::seconds(second)};
    EXPECT_EQ(parse_http_date(format_http_date(time)), time);
  }
}

TEST(HttpDate, RefusesOtherThings) {
  for (const std::string_view text :
       {"", "Sun", "Sun, ", "Son, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37",
        "Sun, 06 Nov 1994 24:49:37 GMT", "Sun, 31 Feb 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 GMT+1",
        "Sun, 6 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 94 08:49:37 GMT", "784111777", "Sun, 00 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:+1:37 GMT"}) {
    EXPECT_EQ(parse_http_date(text), std::nullopt) << text;
  }
}

TEST(ETag, ComparesWeakAndStrong) {
  EXPECT_TRUE(etag_matches("\"a\"", "\"a\"", TagComparison::Strong));
  EXPECT_TRUE(etag_matches("\"x\", W/\"y\" ,\"a\"", "\"a\"", TagComparison::Strong));
  EXPECT_TRUE(etag_matches("W/\"a\"", "\"a\"", TagComparison::Weak));
  EXPECT_TRUE(etag_matches("\"a\"", "W/\"a\"", TagComparison::Weak));
  EXPECT_FALSE(etag_matches("W/\"a\"", "W/\"a\"", TagComparison::Strong));
  EXPECT_FALSE(etag_matches("\"a\"", "\"A\"", TagComparison::Weak));
  EXPECT_TRUE(etag_matches("\"a,b\"", "\"a,b\"", TagComparison::Strong));
  EXPECT_TRUE(etag_matches("*", "", TagComparison::Strong));
  EXPECT_FALSE(etag_matches("", "", TagComparison::Weak));
  EXPECT_FALSE(etag_matches("unquoted", "\"unquoted\"", TagComparison::Weak));
  EXPECT_FALSE(etag_matches("\"unclosed", "\"unclosed\"", TagComparison::Weak));
}

const Validators kState{"\"v1\"", kExample};
constexpr const char* kSame = "Sun, 06 Nov 1994 08:49:37 GMT";
constexpr const char* kBefore = "Sun, 06 Nov 1994 08:49:36 GMT";
constexpr const char* kAfter = "Sun, 06 Nov 1994 08:49:38 GMT";

Precondition evaluate(Headers headers, std::string_view method = "GET") {
  return evaluate_preconditions(method, headers, kState);
}

TEST(Preconditions, IfModifiedSince) {
  EXPECT_EQ(evaluate({{"If-Modified-Since", kSame}}), Precondition::NotModified);
  EXPECT_EQ(evaluate({{"If-Modified-Since", kAfter}}), Precondition::NotModified);
  EXPECT_EQ(evaluate({{"If-Modified-Since", kBefore}}), Precondition::Proceed);
  EXPECT_EQ(evaluate({{"If-Modified-Since", "yesterday"}}), Precondition::Proceed);
  EXPECT_EQ(evaluate({{"If-Modified-Since", kSame}}, "POST"), Precondition::Proceed);
  EXPECT_EQ(evaluate_preconditions("GET", {{"If-Modified-Since", kSame}}, {}), Precondition::Proceed);
}

TEST(Preconditions, IfNoneMatchBeatsTheDate) {
  EXPECT_EQ(evaluate({{"If-None-Match", "W/\"v1\""}}), Precondition::NotModified);
  EXPECT_EQ(evaluate({{"If-None-Match", "\"v1\""}}, "PUT"), Precondition::Failed);
  EXPECT_EQ(evaluate({{"If-None-Match", "\"v2\""}, {"If-Modified-Since", kSame}}), Precondition::Proceed);
}

TEST(Preconditions, IfMatchBeatsTheDate) {
  EXPECT_EQ(evaluate({{"If-Match", "\"v1\""}, {"If-Unmodified-Since", kBefore}}), Precondition::Proceed);
  EXPECT_EQ(evaluate({{"If-Match", "\"v2\""}}), Precondition::Failed);
  EXPECT_EQ(evaluate({{"If-Match", "*"}}), Precondition::Proceed);
  EXPECT_EQ(evaluate({{"If-Unmodified-Since", kBefore}}), Precondition::Failed);
  EXPECT_EQ(evaluate({{"If-Unmodified-Since", kSame}}), Precondition::Proceed);
  EXPECT_EQ(evaluate({{"If-Match", "\"v2\""}, {"If-None-Match", "\"v1\""}}), Precondition::Failed);
}

TEST(Preconditions, IfRangeWantsTheVerySameState) {
  EXPECT_TRUE(range_applies({}, kState));
  EXPECT_TRUE(range_applies({{"If-Range", "\"v1\""}}, kState));
  EXPECT_FALSE(range_applies({{"If-Range", "\"v2\""}}, kState));
  EXPECT_FALSE(range_applies({{"If-Range", "W/\"v1\""}}, kState));
  EXPECT_TRUE(range_applies({{"If-Range", kSame}}, kState));
  EXPECT_FALSE(range_applies({{"If-Range", kAfter}}, kState));
  EXPECT_FALSE(range_applies({{"If-Range", "nonsense"}}, kState));
  EXPECT_FALSE(range_applies({{"If-Range", "nonsense"}}, {}));
}

TEST(Attachment, EncodesWhatAQuotedStringCannotHold) {
  EXPECT_EQ(attachment_disposition("a b.txt"), "attachment; filename=\"a b.txt\"");
  EXPECT_EQ(attachment_disposition("a\"\\b"), "attachment; filename=\"a\\\"\\\\b\"");
  EXPECT_EQ(attachment_disposition("na\xC3\xAFve.txt"),
            "attachment; filename=\"na%C3%AFve.txt\"; filename*=UTF-8''na%C3%AFve.txt");
  EXPECT_EQ(attachment_disposition("a\r\nX: y"),
            "attachment; filename=\"a%0D%0AX%3A%20y\"; filename*=UTF-8''a%0D%0AX%3A%20y");
}

}  // namespace
}  // namespace osb::http
