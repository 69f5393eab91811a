#include <random>

#include "base/stopwatch.h"
#include "egress/host/host_fixture.h"

namespace osb::egress::testing {
namespace {

using HostTunnel = HostTest;

constexpr std::string_view kAllowTexts =
    R"({"egress":[{"action":"allow","target":"t0.test"},{"action":"allow","target":"t1.test"},
                  {"action":"allow","target":"t2.test"},{"action":"allow","target":"t3.test"}]})";

// A name of 200 bytes that nobody can guess.
std::string secret_name() {
  static std::mt19937_64 random(7);
  std::string out;
  for (int i = 0; i < 200; ++i) {
    if (i % 50 == 49) {
      out.push_back('.');
    } else {
      out.push_back(static_cast<char>('a' + random() % 26));
    }
  }
  return out + "hidden";
}

TestRecord record_of(const std::string& owner, RecordType type) {
  const std::string name = wire(secret_name());
  switch (type) {
    case RecordType::MX:
      return {owner, type, 60, std::string(2, '\0') + name};
    case RecordType::SRV:
      return {owner, type, 60, std::string(6, '\0') + name};
    case RecordType::SOA:
      return {owner, type, 60, name + name + std::string(20, '\0')};
    case RecordType::TXT:
      return {owner, type, 60, '\xc8' + secret_name().substr(0, 200)};
    default:
      return {owner, type, 60, name};
  }
}

// The data of all records, together.
std::size_t carried(const Response& response) {
  std::size_t out = 0;
  for (const Record& each : response.answers) out += each.data.size();
  return out;
}

TEST_F(HostTunnel, NoTypeOfAnswerCarriesMuchToANameUnderAWildcard) {
  using enum RecordType;
  const RecordType types[] = {MX, NS, SRV, PTR, SOA, TXT, CNAME};
  add_sandbox("a", "127.0.0.2", kAllowExample);
  const UniqueFd socket = socket_of("127.0.0.2");
  const Stopwatch watch;
  // All are in flight at once: none is known to be dear when the next one leaves.
  constexpr int kQuestions = 56;
  for (int i = 0; i < kQuestions; ++i) {
    const std::string name = std::to_string(i) + ".example.com";
    const RecordType type = types[i % std::size(types)];
    server_.set(name, type, {record_of(name, type)});
    ask(socket, name, type);
  }
  std::size_t bytes = 0;
  int refused = 0;
  for (int i = 0; i < kQuestions; ++i) {
    const Response response = answer(socket);
    bytes += carried(response);
    refused += response.rcode == 2 ? 1 : 0;
  }
  EXPECT_GT(bytes, 0u);
  EXPECT_LE(static_cast<double>(bytes), 4096 + 512 * std::chrono::duration<double>(watch.elapsed()).count());
  EXPECT_GT(refused, 0);
}

TEST_F(HostTunnel, AliasesOfANameUnderAWildcardCarryAsLittle) {
  add_sandbox("a", "127.0.0.2", kAllowExample);
  const UniqueFd socket = socket_of("127.0.0.2", SOCK_DGRAM);
  int told = 0;
  for (int i = 0; i < 60; ++i) {
    const std::string name = std::to_string(i) + ".example.com", other = secret_name();
    server_.set(name, RecordType::A, {cname(name, other), a(other, "10.0.0.1")});  // an address that is not opened
    ask(socket, name);
    told += carried(answer(socket)) > 0 ? 1 : 0;
  }
  EXPECT_GT(told, 0);
  EXPECT_LT(told, 60);
}

TEST_F(HostTunnel, AnAnswerThatWasRefusedDoesNotComeFromTheCacheEither) {
  add_sandbox("a", "127.0.0.2", kAllowExample);
  const UniqueFd socket = socket_of("127.0.0.2");
  int told = 0, again = 0;
  for (int* count : {&told, &again}) {
    for (int i = 0; i < 60; ++i) {
      const std::string name = std::to_string(i) + ".example.com";
      if (count == &told) server_.set(name, RecordType::MX, {record_of(name, RecordType::MX)});
      ask(socket, name, RecordType::MX);
      *count += answer(socket).rcode == 0 ? 1 : 0;
    }
  }
  EXPECT_GT(told, 0);
  EXPECT_GE(again, told) << "what the sandbox was told is told again";
  EXPECT_LT(again, 60);
}

TEST_F(HostTunnel, ManyNamesWithTheSameAliasAndAddressesAreAnswered) {
  add_sandbox("a", "127.0.0.2", kAllowExample);
  const UniqueFd socket = socket_of("127.0.0.2");
  const std::string alias = "a-rather-long-name-of-a-host.of-a-network.that-delivers-contents.test";
  for (int i = 0; i < 60; ++i) {
    const std::string name = std::to_string(i) + ".example.com";
    server_.set(name, RecordType::A, {cname(name, alias), a(alias, "93.184.216.34"), a(alias, "93.184.216.35")});
    ask(socket, name);
    if (i == 0) (void)grant();
    EXPECT_EQ(answer(socket).rcode, 0) << i;
  }
}

TEST_F(HostTunnel, TextOfNamesThatThePolicyNamesIsLimitedToo) {
  add_sandbox("a", "127.0.0.2", kAllowTexts);
  const UniqueFd socket = socket_of("127.0.0.2", SOCK_STREAM);
  // Over TCP, where an answer is large; all at once.
  std::string framed;
  for (int i = 0; i < 4; ++i) {
    const std::string name = "t" + std::to_string(i) + ".test";
    std::vector<TestRecord> records;
    for (int j = 0; j < 15; ++j) records.push_back(record_of(name, RecordType::TXT));
    server_.set(name, RecordType::TXT, records);
    const std::string message = question(name, RecordType::TXT);
    put_u16(framed, static_cast<std::uint16_t>(message.size()));
    framed += message;
  }
  ASSERT_EQ(::send(socket.get(), framed.data(), framed.size(), 0), static_cast<ssize_t>(framed.size()));
  ::shutdown(socket.get(), SHUT_WR);
  const std::string in = read_to_end(socket);
  EXPECT_GT(in.size(), 3000u) << "one of any size";
  EXPECT_LT(in.size(), 4 * 3000u);
}

}  // namespace
}  // namespace osb::egress::testing
