#include "egress/host/host_fixture.h"

namespace osb::egress::testing {
namespace {

using HostDns = HostTest;

std::vector<std::string> texts(const Response& response) {
  std::vector<std::string> out;
  for (const Record& each : response.answers) {
    IpAddress address{.v6 = each.type == RecordType::AAAA};
    std::memcpy(address.bytes.data(), each.data.data(), each.data.size());
    out.push_back(format_ip_address(address));
  }
  return out;
}

TEST_F(HostDns, AnAllowedNameIsAnsweredOnlyAfterItsAddressesAreOpen) {
  server_.set("www.example.com", RecordType::A, {a("www.example.com", "93.184.216.34", 10)});
  add_sandbox("a", "127.0.0.2", kAllowExample, 5);
  const UniqueFd socket = socket_of("127.0.0.2");
  ask(socket, "www.example.com");
  const auto open = expect<link::OpenAddresses>();
  EXPECT_EQ(open.id, "a");
  EXPECT_EQ(open.revision, 5u);
  EXPECT_EQ(open.addresses,
            (std::vector<link::OpenAddress>{{*parse_ip_address("93.184.216.34"), 70, "www.example.com"}}));
  char byte;
  EXPECT_LT(::recv(socket.get(), &byte, 1, MSG_DONTWAIT), 0) << "answered before it was open";
  send(link::Answer{open.seq, 5, link::Answer::Problem::None, ""});
  EXPECT_EQ(texts(answer(socket)), std::vector<std::string>{"93.184.216.34"});
  // From the cache, and the address is open still.
  ask(socket, "WWW.example.com");
  EXPECT_EQ(texts(answer(socket)), std::vector<std::string>{"93.184.216.34"});
  EXPECT_EQ(server_.asked("www.example.com"), 1);
}

TEST_F(HostDns, OtherSandboxesShareTheAnswerAndOpenForThemselves) {
  server_.set("www.example.com", RecordType::A, {a("www.example.com", "93.184.216.34")});
  add_sandbox("a", "127.0.0.2", kAllowExample);
  add_sandbox("b", "127.0.0.3", kAllowExample);
  const UniqueFd first = socket_of("127.0.0.2"), second = socket_of("127.0.0.3");
  ask(first, "www.example.com");
  EXPECT_EQ(grant().id, "a");
  (void)answer(first);
  ask(second, "www.example.com");
  EXPECT_EQ(grant().id, "b");
  (void)answer(second);
  EXPECT_EQ(server_.asked("www.example.com"), 1);
}

TEST_F(HostDns, ADeniedNameIsNxdomainAndNeverLeavesTheHost) {
  server_.set("evil.org", RecordType::A, {a("evil.org", "6.6.6.6")});
  add_sandbox("a", "127.0.0.2", kAllowExample);
  const UniqueFd socket = socket_of("127.0.0.2");
  for (const char* name : {"evil.org", "example.com", "wwwexample.com", "www.example.com.evil.org"}) {
    ask(socket, name);
    const Response denied = answer(socket);
    EXPECT_EQ(denied.rcode, 3) << name;
    EXPECT_TRUE(denied.authority.empty()) << name;
    EXPECT_EQ(server_.asked(name), 0) << name;
  }
}

TEST_F(HostDns, AStrangerGetsNoAnswer) {
  add_sandbox("a", "127.0.0.2", R"({"defaultAction":"allow"})");
  const UniqueFd stranger = socket_of("127.0.0.50");
  ask(stranger, "www.example.com");
  settle();
  char byte;
  EXPECT_LT(::recv(stranger.get(), &byte, 1, MSG_DONTWAIT), 0);
}

TEST_F(HostDns, ANameThatTurnsIntoAPrivateAddressShowsNone) {
  server_.set("rebind.example.com", RecordType::A,
              {a("rebind.example.com", "169.254.169.254"), a("rebind.example.com", "10.0.0.1"),
               a("rebind.example.com", "127.0.0.1"), a("rebind.example.com", "93.184.216.34")});
  server_.set("rebind.example.com", RecordType::AAAA, {aaaa("rebind.example.com", "fd00:ec2::254")});
  add_sandbox("a", "127.0.0.2", kAllowExample);
  const UniqueFd socket = socket_of("127.0.0.2");
  ask(socket, "rebind.example.com");
  EXPECT_EQ(grant().addresses.size(), 1u);
  EXPECT_EQ(texts(answer(socket)), std::vector<std::string>{"93.184.216.34"});
  ask(socket, "rebind.example.com", RecordType::AAAA);
  EXPECT_TRUE(answer(socket).answers.empty());
}

TEST_F(HostDns, AnAddressRuleDecidesAboutAnswers) {
  server_.set("in.example.com", RecordType::A, {a("in.example.com", "10.1.2.3"), a("in.example.com", "1.1.1.1")});
  add_sandbox("a", "127.0.0.2",
              R"({"egress":[{"action":"allow","target":"in.example.com"},{"action":"allow","target":"10.1.0.0/16"},
                            {"action":"deny","target":"1.1.1.1"}]})");
  const UniqueFd socket = socket_of("127.0.0.2");
  ask(socket, "in.example.com");
  // Open by its rule: there is nothing to ask sandboxd for.
  EXPECT_EQ(texts(answer(socket)), std::vector<std::string>{"10.1.2.3"});
}

TEST_F(HostDns, ARefusedOpeningIsServfail) {
  server_.set("www.example.com", RecordType::A, {a("www.example.com", "93.184.216.34")});
  add_sandbox("a", "127.0.0.2", kAllowExample);
  const UniqueFd socket = socket_of("127.0.0.2");
  ask(socket, "www.example.com");
  const auto open = expect<link::OpenAddresses>();
  send(link::Answer{open.seq, 0, link::Answer::Problem::Limit, "4096 addresses are open"});
  EXPECT_EQ(answer(socket).rcode, 2);
  // It is asked for again, not believed to be open.
  ask(socket, "www.example.com");
  (void)grant();
  EXPECT_EQ(answer(socket).rcode, 0);
}

TEST_F(HostDns, AnAnswerInFlightIsJudgedByTheNewPolicy) {
  server_.set("www.example.com", RecordType::A, {a("www.example.com", "93.184.216.34")});
  add_sandbox("a", "127.0.0.2", kAllowExample, 1);
  const UniqueFd socket = socket_of("127.0.0.2");
  ask(socket, "www.example.com");
  const auto open = expect<link::OpenAddresses>();
  add_sandbox("a", "127.0.0.2", R"({"defaultAction":"deny"})", 2);
  send(link::Answer{open.seq, 0, link::Answer::Problem::Stale, "revision 2 is in force"});
  EXPECT_EQ(answer(socket).rcode, 3);
}

TEST_F(HostDns, AChangeKeepsTheAddressesOfNamesThatStayAllowed) {
  server_.set("www.example.com", RecordType::A, {a("www.example.com", "93.184.216.34")});
  add_sandbox("a", "127.0.0.2", kAllowExample, 1);
  const UniqueFd socket = socket_of("127.0.0.2");
  ask(socket, "www.example.com");
  (void)grant();
  (void)answer(socket);
  add_sandbox("a", "127.0.0.2", R"({"egress":[{"action":"allow","target":"www.example.com"}]})", 2);
  const auto again = grant();
  EXPECT_EQ(again.revision, 2u);
  ASSERT_EQ(again.addresses.size(), 1u);
  EXPECT_LE(again.addresses[0].seconds, 120u);
}

TEST_F(HostDns, EqualQuestionsInFlightAreAskedOnce) {
  server_.be_silent(true);
  server_.set("www.example.com", RecordType::A, {});
  add_sandbox("a", "127.0.0.2", R"({"defaultAction":"allow"})");
  add_sandbox("b", "127.0.0.3", R"({"defaultAction":"allow"})");
  const UniqueFd first = socket_of("127.0.0.2"), second = socket_of("127.0.0.3");
  for (int i = 0; i < 10; ++i) {
    ask(first, "www.example.com");
    ask(second, "www.example.com");
  }
  settle();
  server_.be_silent(false);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(answer(first).rcode, 0);
    EXPECT_EQ(answer(second).rcode, 0);
  }
  EXPECT_LE(server_.asked("www.example.com"), 4);  // once, and its repetitions
}

TEST_F(HostDns, ASecondServerAnswersForADeadOne) {
  NameServer other;
  other.set("www.example.com", RecordType::A, {a("www.example.com", "93.184.216.34")});
  server_.always(2);
  send(link::Hello{{format_endpoint(server_.endpoint()), format_endpoint(other.endpoint())}, 4096});
  add_sandbox("a", "127.0.0.2", R"({"defaultAction":"allow"})");
  const UniqueFd socket = socket_of("127.0.0.2");
  ask(socket, "www.example.com");
  EXPECT_EQ(texts(answer(socket)).size(), 1u);
  EXPECT_EQ(server_.asked("www.example.com"), 1);
  other.always(2);
  ask(socket, "other.example.com");
  EXPECT_EQ(answer(socket).rcode, 2);
}

TEST_F(HostDns, APortThatNothingListensOnIsPassedOverAtOnce) {
  Endpoint nothing;
  {
    const NameServer gone;
    nothing = gone.endpoint();
  }
  server_.set("www.example.com", RecordType::A, {a("www.example.com", "93.184.216.34")});
  send(link::Hello{{format_endpoint(nothing), format_endpoint(server_.endpoint())}, 4096});
  add_sandbox("a", "127.0.0.2", R"({"defaultAction":"allow"})");
  const UniqueFd socket = socket_of("127.0.0.2");
  ask(socket, "www.example.com");
  EXPECT_EQ(texts(answer(socket)).size(), 1u);
}

TEST_F(HostDns, ATruncatedAnswerIsCompletedOverTcp) {
  std::vector<TestRecord> many;
  for (int i = 1; i < 60; ++i) many.push_back(a("big.example.com", "93.184.216." + std::to_string(i)));
  server_.set("big.example.com", RecordType::A, many);
  server_.only_by_tcp("big.example.com");
  add_sandbox("a", "127.0.0.2", kAllowExample);
  const UniqueFd socket = socket_of("127.0.0.2");
  ask(socket, "big.example.com");
  EXPECT_EQ(grant().addresses.size(), 59u);
  EXPECT_EQ(answer(socket).answers.size(), 59u);
}

TEST_F(HostDns, QuestionsOverTcpAreAnswered) {
  server_.set("www.example.com", RecordType::A, {a("www.example.com", "93.184.216.34")});
  add_sandbox("a", "127.0.0.2", kAllowExample);
  const UniqueFd socket = socket_of("127.0.0.2", SOCK_STREAM);
  std::string framed;
  for (const char* name : {"evil.org", "www.example.com"}) {
    const std::string message = question(name, RecordType::A);
    put_u16(framed, static_cast<std::uint16_t>(message.size()));
    framed += message;
  }
  ASSERT_EQ(::send(socket.get(), framed.data(), framed.size(), 0), static_cast<ssize_t>(framed.size()));
  ::shutdown(socket.get(), SHUT_WR);
  (void)grant();
  const std::string in = read_to_end(socket);
  const std::size_t first = WireReader(in).u16();
  ASSERT_GT(in.size(), first + 4);
  EXPECT_EQ(parse_response(in.substr(2, first))->rcode, 3);
  EXPECT_EQ(parse_response(in.substr(first + 4))->answers.size(), 1u);
}

TEST_F(HostDns, ConnectionsOfOneSandboxLeaveRoomForAnother) {
  add_sandbox("a", "127.0.0.2", kAllowExample);
  add_sandbox("b", "127.0.0.3", kAllowExample);
  settle();
  std::vector<UniqueFd> taken;
  for (int i = 0; i < 33; ++i) {
    taken.push_back(socket_of("127.0.0.2", SOCK_STREAM));
    if (i % 8 == 0) settle();  // the queue of the listener is short
  }
  std::array<char, 512> buffer;
  auto refused = http::make_plain_transport(io_.get_executor(), std::move(taken.back()));
  const auto end = await(io_, refused->read_some(buffer));
  EXPECT_TRUE(!end || *end == 0) << "the 33rd";

  const UniqueFd socket = socket_of("127.0.0.3", SOCK_STREAM);
  const std::string message = question("evil.org", RecordType::A);
  std::string framed;
  put_u16(framed, static_cast<std::uint16_t>(message.size()));
  framed += message;
  ASSERT_EQ(::send(socket.get(), framed.data(), framed.size(), 0), static_cast<ssize_t>(framed.size()));
  auto transport = http::make_plain_transport(io_.get_executor(), UniqueFd(::dup(socket.get())));
  const auto got = await(io_, transport->read_some(buffer));
  EXPECT_TRUE(got && *got > 2);
}

TEST_F(HostDns, OnlyTheQuestionGoesUpstreamInLowerCase) {
  server_.set("abc.example.com", RecordType::A, {a("abc.example.com", "93.184.216.34")});
  add_sandbox("a", "127.0.0.2", R"({"defaultAction":"allow"})");
  const UniqueFd socket = socket_of("127.0.0.2");
  std::string message = question("abc.example.com", RecordType::A);
  message[13] = 'A';
  // A cookie of EDNS, which would carry bytes out.
  message[message.size() - 1] = 12;
  message += std::string("\0\x0a\0\x08", 4) + "smuggled";
  ASSERT_GT(::send(socket.get(), message.data(), message.size(), 0), 0);
  EXPECT_EQ(answer(socket).answers.size(), 1u);
  const std::string seen = server_.last_question();
  EXPECT_FALSE(seen.contains("smuggled"));
  EXPECT_FALSE(seen.contains("Abc"));
  EXPECT_TRUE(seen.contains("abc"));
}

TEST_F(HostDns, TunnellingUnderAWildcardIsCutOff) {
  add_sandbox("a", "127.0.0.2", kAllowExample);
  const UniqueFd socket = socket_of("127.0.0.2");
  int refused = 0;
  std::size_t bytes = 0;
  for (int i = 0; i < 60; ++i) {
    const std::string label = std::to_string(i) + std::string(50, 'x');
    ask(socket, label + ".example.com");
    if (answer(socket).rcode == 2) ++refused;
    if (server_.asked(label + ".example.com") > 0) bytes += label.size();
  }
  EXPECT_GT(refused, 0);
  EXPECT_LT(bytes, 60u * 50);
}

TEST_F(HostDns, AnotherSandboxIsNotSlowedDownByQuestionsThatWait) {
  server_.be_silent(true);
  add_sandbox("loud", "127.0.0.2", R"({"defaultAction":"allow"})");
  const UniqueFd loud = socket_of("127.0.0.2");
  for (int i = 0; i < 400; ++i) {
    ask(loud, "n" + std::to_string(i) + ".test");
    if (i % 100 == 99) settle();  // the kernel's queue holds a few hundred
  }
  server_.be_silent(false);
  server_.set("www.example.com", RecordType::A, {a("www.example.com", "93.184.216.34")});
  add_sandbox("quiet", "127.0.0.3", R"({"defaultAction":"allow"})");
  const UniqueFd quiet = socket_of("127.0.0.3");
  ask(quiet, "www.example.com");
  EXPECT_EQ(answer(quiet).answers.size(), 1u);
}

TEST_F(HostDns, AuditLetsDeniedNamesPass) {
  server_.set("evil.org", RecordType::A, {a("evil.org", "93.184.216.34")});
  add_sandbox("a", "127.0.0.2", R"({"defaultAction":"deny"})", 1, true);
  const UniqueFd socket = socket_of("127.0.0.2");
  ask(socket, "evil.org");
  (void)grant();
  EXPECT_EQ(answer(socket).answers.size(), 1u);
}

TEST_F(HostDns, AuditKeepsTheOperatorsRules) {
  server_.set("www.example.com", RecordType::A,
              {a("www.example.com", "93.184.216.34"), a("www.example.com", "93.184.216.35"),
               a("www.example.com", "93.184.216.36")});
  send(link::OverlayTexts{"evil.org\n93.184.216.35\n", ""});
  add_sandbox("a", "127.0.0.2", R"({"egress":[{"action":"deny","target":"93.184.216.36"}]})", 1, true);
  const UniqueFd socket = socket_of("127.0.0.2");
  ask(socket, "evil.org");
  EXPECT_EQ(answer(socket).rcode, 3);
  EXPECT_EQ(server_.asked("evil.org"), 0);
  ask(socket, "www.example.com");
  EXPECT_EQ(grant().addresses.size(), 2u);
  EXPECT_EQ(texts(answer(socket)), (std::vector<std::string>{"93.184.216.34", "93.184.216.36"}));
}

}  // namespace
}  // namespace osb::egress::testing
