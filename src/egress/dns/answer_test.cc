#include "egress/dns/answer.h"

#include <gtest/gtest.h>

#include "egress/dns/message_fixture.h"
#include "egress/dns/svcb.h"

namespace osb::egress {
namespace {

using namespace testing;

std::string encode(const Answer& answer, const Query& query, std::uint32_t age = 0, std::vector<bool> hidden = {},
                   std::size_t limit = 65'535) {
  std::string out;
  answer.encode(out, query, age, hidden, limit);
  return out;
}

Answer make(const Query& query, const TestResponse& response) {
  const auto parsed = parse_response(message(response));
  EXPECT_TRUE(parsed);
  return Answer(query.question, parsed.value_or(Response{}));
}

std::vector<std::string> addresses(const Answer& answer) {
  std::vector<std::string> out;
  for (const auto& each : answer.addresses()) out.push_back(format_ip_address(each.address));
  return out;
}

TEST(DnsAnswer, FollowsTheChainFromTheQuestionOnly) {
  const Query asked = query("www.example.com", RecordType::A);
  const Answer answer =
      make(asked, {.name = "www.example.com",
                   .answers = {a("evil.org", "6.6.6.6"), a("b.cdn.net", "1.2.3.4", 30), cname("a.cdn.net", "b.cdn.net"),
                               cname("www.example.com", "a.cdn.net"), a("www.example.com", "9.9.9.9")},
                   .authority = {a("b.cdn.net", "8.8.8.8")},
                   .additional = {a("b.cdn.net", "7.7.7.7")}});
  EXPECT_EQ(addresses(answer), std::vector<std::string>{"1.2.3.4"});
  EXPECT_EQ(answer.ttl(), 30u);
  const auto sent = parse_response(encode(answer, asked, 10));
  ASSERT_TRUE(sent);
  ASSERT_EQ(sent->answers.size(), 3u);
  EXPECT_EQ(sent->answers[0].data, wire("a.cdn.net"));
  EXPECT_EQ(sent->answers[2].owner, wire("b.cdn.net"));
  EXPECT_EQ(sent->answers[2].ttl, 20u);
  EXPECT_TRUE(sent->authority.empty());
}

TEST(DnsAnswer, AChainThatIsALoopEnds) {
  const Query asked = query("a.com", RecordType::A);
  const Answer answer = make(
      asked, {.name = "a.com", .answers = {cname("a.com", "b.com"), cname("b.com", "a.com"), a("x.com", "1.1.1.1")}});
  EXPECT_TRUE(answer.addresses().empty());
  EXPECT_EQ(answer.ttl(), 0u);  // no SOA: it is not kept
}

TEST(DnsAnswer, HiddenAddressesAreLeftOutAndTheRestCanBeRead) {
  const Query asked = query("www.example.com", RecordType::A);
  const Answer answer = make(
      asked, {.name = "www.example.com",
              .answers = {cname("www.example.com", "cdn.net"), a("cdn.net", "10.0.0.1"), a("cdn.net", "1.2.3.4")}});
  const auto sent = parse_response(encode(answer, asked, 0, {true, false}));
  ASSERT_TRUE(sent);
  ASSERT_EQ(sent->answers.size(), 2u);
  EXPECT_EQ(sent->answers[1].owner, wire("cdn.net"));
  EXPECT_EQ(sent->answers[1].data, address_data("1.2.3.4"));
  const auto none = parse_response(encode(answer, asked, 0, {true, true}));
  ASSERT_TRUE(none);
  EXPECT_EQ(none->answers.size(), 1u);
}

TEST(DnsAnswer, MappedAddressesAreIpv4) {
  const Query asked = query("a.com", RecordType::AAAA);
  TestRecord mapped = aaaa("a.com", "2001:db8::1");
  mapped.data = std::string(10, '\0') + "\xff\xff" + address_data("169.254.169.254");
  const Answer answer = make(asked, {.name = "a.com", .type = RecordType::AAAA, .answers = {mapped}});
  EXPECT_EQ(addresses(answer), std::vector<std::string>{"169.254.169.254"});
}

TEST(DnsAnswer, NegativeAnswersKeepTheSoaAndItsTime) {
  const Query asked = query("no.example.com", RecordType::A);
  const Answer answer = make(
      asked,
      {.flags = 0x8183, .name = "no.example.com", .authority = {soa("example.com", 40), a("example.com", "1.1.1.1")}});
  EXPECT_EQ(answer.rcode(), Rcode::NxDomain);
  EXPECT_EQ(answer.ttl(), 40u);
  const auto sent = parse_response(encode(answer, asked));
  ASSERT_TRUE(sent);
  EXPECT_EQ(sent->rcode, 3);
  ASSERT_EQ(sent->authority.size(), 1u);
  EXPECT_EQ(sent->authority[0].owner, wire("example.com"));
}

TEST(DnsAnswer, LongAnswersAreTruncatedToTheLimit) {
  const Query asked = query("a.com", RecordType::A);
  TestResponse response{.name = "a.com"};
  for (int i = 0; i < 100; ++i) response.answers.push_back(a("a.com", "1.2.3." + std::to_string(i)));
  const Answer answer = make(asked, response);
  const std::string cut = encode(answer, asked, 0, {}, 512);
  EXPECT_LE(cut.size(), 512u);
  const auto sent = parse_response(cut);
  ASSERT_TRUE(sent);
  EXPECT_TRUE(sent->truncated);
  EXPECT_EQ(parse_response(encode(answer, asked))->answers.size(), 100u);
}

TEST(DnsAnswer, ADeniedNameSaysSoToAskersWithEdns) {
  std::string out;
  encode_reply(out, query("a.com", RecordType::A),
               {.rcode = Rcode::NxDomain, .recursion_available = false, .blocked = true});
  EXPECT_TRUE(out.ends_with(std::string_view("\0\x0f\0\x02\0\x0f", 6)));
  EXPECT_EQ(out.substr(2, 2), "\x81\x03");  // RD copied, RA clear
}

std::string parameter(std::uint16_t key, std::string value) {
  std::string out;
  put_u16(out, key);
  put_u16(out, static_cast<std::uint16_t>(value.size()));
  return out + value;
}

TEST(DnsSvcb, EchAndHintsGoAndTheRestStays) {
  const std::string head = std::string("\0\1", 2) + wire("svc.example");
  const std::string alpn = parameter(1, "\2h2");
  const std::string port = parameter(3, "\x01\xbb");
  const auto kept = without_hints(head + alpn + port + parameter(4, address_data("10.0.0.1")) + parameter(5, "keys") +
                                  parameter(6, address_data("fd00::1")) + parameter(7, "/q"));
  ASSERT_TRUE(kept);
  EXPECT_EQ(*kept, head + alpn + port + parameter(7, "/q"));
  EXPECT_EQ(without_hints(std::string("\0\0", 2) + wire("alias.example")),
            std::string("\0\0", 2) + wire("alias.example"));
}

TEST(DnsSvcb, RecordsThatDemandWhatGoesAndBrokenOnesAreDropped) {
  const std::string head = std::string("\0\1\0", 3);
  EXPECT_FALSE(without_hints(head + parameter(0, std::string("\0\5", 2)) + parameter(5, "keys")));
  EXPECT_FALSE(without_hints(head + parameter(3, "ab") + parameter(1, "cd")));  // out of order
  EXPECT_FALSE(without_hints(head + parameter(1, "a") + parameter(1, "a")));
  EXPECT_FALSE(without_hints(head + std::string("\0\1\0\xff", 4)));
  EXPECT_FALSE(without_hints(std::string("\0\1\xc0\x0c", 4)));  // compressed
  EXPECT_FALSE(without_hints(""));
}

TEST(DnsResponse, HostileResponsesAreRefused) {
  const std::string good = message({.name = "a.com", .answers = {a("a.com", "1.1.1.1")}});
  ASSERT_TRUE(parse_response(good));
  for (std::size_t cut = 0; cut < good.size(); ++cut) EXPECT_FALSE(parse_response(good.substr(0, cut))) << cut;
  EXPECT_FALSE(parse_response(message({.flags = 0x0100, .name = "a.com"})));  // a query
  TestRecord bad = a("a.com", "1.1.1.1");
  bad.data.pop_back();
  EXPECT_FALSE(parse_response(message({.name = "a.com", .answers = {bad}})));
  TestRecord alias = cname("a.com", "b.com");
  alias.data = std::string("\xc0\xff", 2);  // a pointer forward
  EXPECT_FALSE(parse_response(message({.name = "a.com", .answers = {alias}})));
  alias.data = wire("b.com") + "x";
  EXPECT_FALSE(parse_response(message({.name = "a.com", .answers = {alias}})));
}

}  // namespace
}  // namespace osb::egress
