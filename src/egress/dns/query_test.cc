#include "egress/dns/query.h"

#include <gtest/gtest.h>

#include "egress/dns/answer.h"
#include "egress/dns/message_fixture.h"

namespace osb::egress {
namespace {

using testing::wire;

std::string header(std::uint16_t flags, std::uint16_t questions, std::uint16_t answers = 0, std::uint16_t authority = 0,
                   std::uint16_t additional = 0) {
  std::string out;
  for (const std::uint16_t value : {std::uint16_t{5}, flags, questions, answers, authority, additional}) {
    put_u16(out, value);
  }
  return out;
}

std::string asks(std::string name) {
  put_u16(name, 1);
  put_u16(name, 1);
  return name;
}

TEST(DnsQuery, TheQuestionIsInLowerCaseAndTheNameIsRepeatedAsWritten) {
  Query query;
  parse_query(header(0x0100, 1) + asks(std::string("\3WwW\7ExAmPle\0", 13)), query);
  ASSERT_EQ(query.problem, Query::Problem::None);
  EXPECT_EQ(query.question.name(), wire("www.example"));
  EXPECT_EQ(query.asked.view(), std::string_view("\3WwW\7ExAmPle\0", 13));
  EXPECT_EQ(query.udp_size, 512);
}

TEST(DnsQuery, HostileMessagesGetTheContractsAnswersOrNone) {
  const std::string good = asks(wire("a.example"));
  const std::string opt = std::string(1, '\0') + std::string("\0\x29\x04\xd0\0\0\0\0\0\0", 10);
  const std::string opt_version_1 = std::string(1, '\0') + std::string("\0\x29\x04\xd0\0\1\0\0\0\0", 10);
  using enum Query::Problem;
  struct {
    const char* why;
    std::string message;
    Query::Problem want;
  } const rows[] = {
      {"empty", "", Ignore},
      {"shorter than a header", std::string(11, '\0'), Ignore},
      {"a response", header(0x8180, 1) + good, Ignore},
      {"an update", header(0x2800, 1) + good, NotImp},
      {"no question", header(0x0100, 0), FormErr},
      {"two questions", header(0x0100, 2) + good + good, FormErr},
      {"an answer in it", header(0x0100, 1, 1) + good, FormErr},
      {"three additional records", header(0x0100, 1, 0, 0, 3) + good + opt + opt + opt, FormErr},
      {"EDNS twice", header(0x0100, 1, 0, 0, 2) + good + opt + opt, FormErr},
      {"EDNS of another version", header(0x0100, 1, 0, 0, 1) + good + opt_version_1, BadVersion},
      {"bytes behind it", header(0x0100, 1) + good + "x", FormErr},
      {"cut in the name", header(0x0100, 1) + std::string("\3ab", 3), FormErr},
      {"cut in the type", header(0x0100, 1) + wire("a.example") + std::string("\0", 1), FormErr},
      {"a pointer to itself", header(0x0100, 1) + asks(std::string("\xc0\x0c", 2)), FormErr},
      {"a pointer into the header", header(0x0100, 1) + asks(std::string("\1a\xc0\x02", 4)), FormErr},
      {"a label of 64 bytes", header(0x0100, 1) + asks("\x40" + std::string(64, 'a') + std::string(1, '\0')), FormErr},
      {"a name of 256 bytes", header(0x0100, 1) + asks([] {
                                std::string name;
                                for (int i = 0; i < 4; ++i) name += '\x3f' + std::string(63, 'a');
                                return name + std::string(1, '\0');
                              }()),
       FormErr},
      {"good", header(0x0100, 1) + good, None},
      {"good with EDNS", header(0x0100, 1, 0, 0, 1) + good + opt, None},
  };
  std::string reply;
  for (const auto& row : rows) {
    Query query;
    parse_query(row.message, query);
    EXPECT_EQ(query.problem, row.want) << row.why;
    encode_problem(reply, query);
    EXPECT_EQ(reply.empty(), row.want == Ignore || row.want == None) << row.why;
    if (!reply.empty()) EXPECT_EQ(reply.substr(0, 2), std::string_view("\0\5", 2)) << row.why;
  }
}

TEST(DnsName, ADotInsideALabelIsNoBorder) {
  EXPECT_EQ(name_text(std::string_view("\5a.evi\3com\0", 11)), "a?evi.com");
  EXPECT_EQ(name_text(std::string_view("\0", 1)), "");
  EXPECT_EQ(name_text(std::string_view("\3\0ab\3CoM\0", 9)), "?ab.com");
}

TEST(DnsName, SuffixesAreFoundAtBordersOnly) {
  EXPECT_EQ(find_suffix(wire("www.example.com"), wire("example.com")), 4u);
  EXPECT_EQ(find_suffix(wire("example.com"), wire("example.com")), 0u);
  EXPECT_FALSE(find_suffix(wire("wwwexample.com"), wire("example.com")));
  // A label whose bytes look like labels.
  EXPECT_FALSE(find_suffix(std::string_view("\5\3com\0\0", 7), wire("com")));
}

TEST(DnsName, TextThatIsNoNameIsRefused) {
  EXPECT_FALSE(name_from_text("a..b"));
  EXPECT_FALSE(name_from_text(std::string(64, 'a') + ".com"));
  EXPECT_FALSE(name_from_text(".a"));
  EXPECT_EQ(*name_from_text("a.b."), wire("a.b"));
}

}  // namespace
}  // namespace osb::egress
