#include "http/url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace osb::http {
namespace {

TEST(PercentDecode, DecodesEscapesAndKeepsPlus) {
  EXPECT_EQ(percent_decode("a%20b+c%2f%C3%A9"), "a b+c/\xC3\xA9");
  EXPECT_EQ(percent_decode(""), "");
}

TEST(PercentDecode, RefusesBrokenEscapesAndNul) {
  for (const std::string_view text : {"%", "%2", "a%zz", "%2g", "%-1", "%00"}) {
    EXPECT_EQ(percent_decode(text), std::nullopt) << text;
  }
  EXPECT_EQ(percent_decode(std::string_view("a\0b", 3)), std::nullopt);
}

TEST(PercentEncode, KeepsUnreservedAndWhatIsAskedFor) {
  EXPECT_EQ(percent_encode("aZ09-._~ /\xFF"), "aZ09-._~%20%2F%FF");
  EXPECT_EQ(percent_encode("/a b", "/"), "/a%20b");
}

TEST(PercentEncode, IsUndoneByDecoding) {
  std::string all;
  for (int byte = 1; byte < 256; ++byte) all += static_cast<char>(byte);
  EXPECT_EQ(percent_decode(percent_encode(all)), all);
}

TEST(Query, KeepsOrderAndRepetition) {
  const Query query = Query::parse("path=/a&path=%2Fb+c&&flag&empty=&x=1=2");
  EXPECT_THAT(query.all("path"), ::testing::ElementsAre("/a", "/b c"));
  EXPECT_EQ(query.get("path"), "/a");
  ASSERT_NE(query.find("flag"), nullptr);
  EXPECT_EQ(query.get("flag"), "");
  EXPECT_EQ(query.get("x"), "1=2");
  EXPECT_EQ(query.find("none"), nullptr);
  EXPECT_EQ(std::distance(query.begin(), query.end()), 5);
}

TEST(Query, BrokenEscapesStayAsTheyAre) {
  const Query query = Query::parse("a=100%&b=%zz%41&c%3D=1");
  EXPECT_EQ(query.get("a"), "100%");
  EXPECT_EQ(query.get("b"), "%zzA");
  EXPECT_EQ(query.get("c="), "1");
}

TEST(Url, TakesHttpAndHttps) {
  const Url plain = Url::parse("http://example.com").value();
  EXPECT_EQ(plain.scheme, "http");
  EXPECT_EQ(plain.host, "example.com");
  EXPECT_EQ(plain.port, 80);
  EXPECT_EQ(plain.target, "/");
  const Url full = Url::parse("HTTPS://Example.com:8443/a%20b?c=d#e").value();
  EXPECT_EQ(full.scheme, "https");
  EXPECT_EQ(full.host, "Example.com");
  EXPECT_EQ(full.port, 8443);
  EXPECT_EQ(full.target, "/a%20b?c=d");
  EXPECT_EQ(Url::parse("https://x").value().port, 443);
  EXPECT_EQ(Url::parse("http://x?q").value().target, "/?q");
}

TEST(Url, TakesIpv6InBrackets) {
  const Url url = Url::parse("http://[::1]:81/x").value();
  EXPECT_EQ(url.host, "::1");
  EXPECT_EQ(url.port, 81);
  EXPECT_EQ(url.target, "/x");
}

TEST(Url, TakesUnixSockets) {
  EXPECT_EQ(Url::parse("unix:/run/x.sock").value().host, "/run/x.sock");
  EXPECT_EQ(Url::parse("unix:///run/x.sock").value().host, "/run/x.sock");
  EXPECT_EQ(Url::parse("unix:/run/x.sock").value().scheme, "unix");
}

TEST(Url, RefusesEverythingElse) {
  for (const std::string_view text :
       {"",           "example.com",    "ftp://x",     "http:/x",         "http://",        "http://:80", "http://x:",
        "http://x:0", "http://x:65536", "http://x:8a", "http://[::1",     "http://[::1]80", "http://[]",  "http://[x]",
        "http://a b", "http://a\r\nb",  "unix:run",    "unix://host/run", "http://a%20b",   "http://::1"}) {
    const auto url = Url::parse(text);
    ASSERT_FALSE(url) << text;
    EXPECT_EQ(url.error().code, Code::InvalidRequest);
  }
}

TEST(Url, APasswordIsNeverRepeated) {
  for (const std::string_view text : {"http://u:hidden@x", "ftp://u:hidden@x", "http:u:hidden@x"}) {
    EXPECT_THAT(Url::parse(text).error().message, ::testing::Not(::testing::HasSubstr("hidden"))) << text;
  }
}

}  // namespace
}  // namespace osb::http
