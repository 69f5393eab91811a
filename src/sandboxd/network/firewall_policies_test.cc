#include <sys/fsuid.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel/nftables.h"
#include "policy/policy.h"
#include "sandboxd/network/firewall.h"
#include "sandboxd/network/network_fixture.h"

// Network policies of slots: every packet of a sandbox that has one is judged by the kernel.
namespace osb::sandboxd {
namespace {

using namespace osb::sandboxd::testing;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::uint32_t kOther = 0xcb00710b;    // 203.0.113.11
constexpr std::uint32_t kThird = 0xcb00710c;    // 203.0.113.12
constexpr std::uint32_t kPrivate = 0x0a000005;  // 10.0.0.5
constexpr std::uint32_t kPrivateToo = 0x0a000006;
constexpr std::uint16_t kEgressPort = 15353, kInterceptPort = 15380;
const std::vector<OpenedAddress> kServerOpen = {{.address = kServer, .lifetime = std::chrono::seconds(60)}};

SlotPolicy compiled(std::string_view json) {
  return must(compile_policy(policy::address_sets(must(policy::parse_policy(json)))));
}

void add_to_internet(const World& world, std::initializer_list<std::uint32_t> addresses) {
  auto route = must(kernel::NetlinkSocket::open_in(world.internet.get(), NETLINK_ROUTE));
  kernel::NetlinkBatch batch;
  for (const std::uint32_t address : addresses)
    kernel::add_address(batch, must(kernel::find_link(route, "lo")).index, address, 32, RT_SCOPE_UNIVERSE);
  must(route.run(batch));
}

NetworkConfig with_egress() {
  NetworkConfig config = World::small_config();
  config.egress_port = kEgressPort;
  config.intercept_port = kInterceptPort;
  config.egress_reports = {{kPrivate, 80}, {std::nullopt, 853}};
  return config;
}

// A world whose internet has a server on ports 80 and 853 of every address.
struct PolicyWorld {
  PolicyWorld() : world(with_egress()) {
    add_to_internet(world, {kOther, kThird, kPrivate, kPrivateToo});
    world.start();
    slot = world.take();
    web = listen_in(world.internet.get(), INADDR_ANY, 80);
    tls = listen_in(world.internet.get(), INADDR_ANY, 853);
    udp = udp_in(world.internet.get(), INADDR_ANY, 443);
  }
  void enforce(std::string_view json) { must(world.firewall->set_policy(slot.index, {.policy = compiled(json)})); }
  bool reaches(std::uint32_t address, std::uint16_t port = 80) {
    // Refusals come at once; kLong is for a host under load.
    const UniqueFd connection = connect_from(slot.netns.get(), address, port, kLong);
    // Taken, so that the server's queue never fills up.
    if (connection && (port == 80 || port == 853)) EXPECT_TRUE(accept_from(port == 80 ? web : tls).fd);
    return static_cast<bool>(connection);
  }
  bool reaches_by_udp(std::uint32_t address) {
    // The marker shows that the first datagram would have arrived by now.
    const UniqueFd client = udp_in(slot.netns.get(), INADDR_ANY, 0);
    const UniqueFd host = udp_in(world.host.get(), INADDR_ANY, 0);
    send_udp(client, address, 443, "sandbox");
    send_udp(host, kServer, 443, "marker");
    const std::string first = receive_udp(udp);
    if (first == "sandbox") return receive_udp(udp) == "marker";
    return false;
  }

  World world;
  Slot slot;
  UniqueFd web, tls, udp;
};

void in_policy_world(const std::function<void(PolicyWorld&)>& body) {
  in_own_network([&] {
    PolicyWorld world;
    body(world);
  });
}

TEST(FirewallPolicies, DenyAllClosesEverythingForThatSandboxOnly) {
  in_policy_world([](PolicyWorld& w) {
    const Slot free = w.world.take();
    EXPECT_TRUE(w.reaches(kServer));
    w.enforce("{}");
    EXPECT_FALSE(w.reaches(kServer));
    EXPECT_FALSE(w.reaches_by_udp(kServer));
    EXPECT_FALSE(w.reaches(w.world.config.gateway(), kEgressPort)) << "the egress process's own port";
    EXPECT_TRUE(connect_from(free.netns.get(), kServer, 80, kLong));
    must(w.world.firewall->set_policy(w.slot.index, {}));
    EXPECT_TRUE(w.reaches(kServer));
  });
}

TEST(FirewallPolicies, NetworksOfEveryLengthAreAllowedAndDenyWins) {
  in_policy_world([](PolicyWorld& w) {
    struct {
      const char* policy;
      bool server, other, third;
    } rows[] = {
        {R"({"egress":[{"action":"allow","target":"203.0.113.10"}]})", true, false, false},
        {R"({"egress":[{"action":"allow","target":"203.0.113.10/31"}]})", true, true, false},
        {R"({"egress":[{"action":"allow","target":"203.0.113.0/24"},{"action":"deny","target":"203.0.113.11"}]})", true,
         false, true},
        {R"({"egress":[{"action":"allow","target":"203.0.113.11"},{"action":"deny","target":"203.0.0.0/8"}]})", false,
         false, false},
        {R"({"egress":[{"action":"allow","target":"0.0.0.0/0"}]})", true, true, true},
        {R"({"egress":[{"action":"allow","target":"128.0.0.0/1"}]})", true, true, true},
        {R"({"egress":[{"action":"allow","target":"0.0.0.0/1"}]})", false, false, false},
        {R"({"defaultAction":"allow","egress":[{"action":"deny","target":"203.0.113.12"}]})", true, true, false},
        {R"({"defaultAction":"allow"})", true, true, true},
        {R"({"egress":[{"action":"allow","target":"*.example.com"},{"action":"allow","target":"::/0"}]})", false, false,
         false},
    };
    for (const auto& row : rows) {
      w.enforce(row.policy);
      EXPECT_EQ(w.reaches(kServer), row.server) << row.policy;
      EXPECT_EQ(w.reaches(kOther), row.other) << row.policy;
      EXPECT_EQ(w.reaches(kThird), row.third) << row.policy;
    }
  });
}

TEST(FirewallPolicies, PortsAreForTcpOnly) {
  in_policy_world([](PolicyWorld& w) {
    w.enforce(R"({"egress":[{"action":"allow","target":"203.0.113.0/24","ports":[80,443]},
                            {"action":"deny","target":"203.0.113.11","ports":[80]}]})");
    EXPECT_TRUE(w.reaches(kServer));
    EXPECT_FALSE(w.reaches(kServer, 853));
    EXPECT_FALSE(w.reaches(kOther));
    EXPECT_FALSE(w.reaches_by_udp(kServer));
    w.enforce(R"({"egress":[{"action":"allow","ports":[80]}]})");
    EXPECT_TRUE(w.reaches(kThird));
    EXPECT_FALSE(w.reaches_by_udp(kThird));
    w.enforce(R"({"defaultAction":"allow","egress":[{"action":"deny","ports":[80]}]})");
    EXPECT_FALSE(w.reaches(kServer));
    EXPECT_TRUE(w.reaches_by_udp(kServer));
  });
}

TEST(FirewallPolicies, NameServersOverTlsAreClosedEvenWhereTheAddressIsAllowed) {
  in_policy_world([](PolicyWorld& w) {
    EXPECT_TRUE(w.reaches(kServer, 853));
    for (const char* policy :
         {R"({"defaultAction":"allow"})", R"({"egress":[{"action":"allow","target":"0.0.0.0/0"}]})",
          R"({"egress":[{"action":"allow","ports":[853]}]})"}) {
      w.enforce(policy);
      EXPECT_FALSE(w.reaches(kServer, 853)) << policy;
    }
    must(w.world.firewall->open_addresses(w.slot.index, kServerOpen));
    EXPECT_FALSE(w.reaches(kServer, 853));
  });
}

TEST(FirewallPolicies, AnOpenedAddressIsReachedByTcpAndUdpOfThatSandboxOnly) {
  in_policy_world([](PolicyWorld& w) {
    const Slot other = w.world.take();
    w.enforce("{}");
    must(w.world.firewall->set_policy(other.index, {.policy = compiled("{}")}));
    must(w.world.firewall->open_addresses(w.slot.index, kServerOpen));
    EXPECT_TRUE(w.reaches(kServer));
    EXPECT_TRUE(w.reaches_by_udp(kServer));
    EXPECT_FALSE(w.reaches(kOther));
    EXPECT_FALSE(connect_from(other.netns.get(), kServer, 80, kLong));
    EXPECT_THAT(w.world.firewall->opened(w.slot.index), ElementsAre(kServer));
    // Ping is neither.
    const UniqueFd raw = socket_in(w.slot.netns.get(), SOCK_RAW, AF_INET, IPPROTO_ICMP);
    const unsigned char echo[] = {8, 0, 0xf7, 0xff, 0, 0, 0, 0};
    const sockaddr_in where = ip_address(kServer, 0);
    ::sendto(raw.get(), echo, sizeof echo, 0, reinterpret_cast<const sockaddr*>(&where), sizeof where);
    ASSERT_TRUE(readable(raw, kLong));
    unsigned char answer[128] = {};
    ASSERT_GT(::recv(raw.get(), answer, sizeof answer, 0), 21);
    EXPECT_EQ(answer[20], 3) << "destination unreachable";
    EXPECT_EQ(answer[21], 13) << "prohibited";
  });
}

// The lifetime of an opened address in which `reach` succeeded. It is doubled until a loaded host is fast enough.
std::optional<std::chrono::seconds> lifetime_that_suffices(const std::function<bool(std::chrono::seconds)>& reach) {
  for (std::chrono::seconds lifetime(1); lifetime < std::chrono::minutes(1); lifetime *= 2) {
    if (reach(lifetime)) return lifetime;
  }
  return std::nullopt;
}

TEST(FirewallPolicies, AnOpenedAddressIsClosedAfterItsLifetime) {
  in_policy_world([](PolicyWorld& w) {
    w.enforce("{}");
    const auto first = lifetime_that_suffices([&](std::chrono::seconds lifetime) {
      must(w.world.firewall->open_addresses(w.slot.index, {{.address = kServer, .lifetime = lifetime}}));
      return w.reaches(kServer);
    });
    ASSERT_TRUE(first);
    // Prolonged: the first time has passed when the second one ends.
    const auto begin = std::chrono::steady_clock::now();
    must(w.world.firewall->open_addresses(w.slot.index,
                                          {{.address = kServer, .lifetime = *first + std::chrono::seconds(2)}}));
    while (w.reaches(kServer)) continue;
    EXPECT_GT(std::chrono::steady_clock::now() - begin, *first + std::chrono::milliseconds(500));
    must(w.world.firewall->open_addresses(w.slot.index, kServerOpen));
    EXPECT_TRUE(w.reaches(kServer)) << "opened again";
  });
}

TEST(FirewallPolicies, AChangeKeepsOpenedAddressesButThoseThatItCloses) {
  in_policy_world([](PolicyWorld& w) {
    w.enforce("{}");
    must(w.world.firewall->open_addresses(w.slot.index, kServerOpen));
    must(w.world.firewall->open_addresses(w.slot.index, {{.address = kOther, .lifetime = std::chrono::seconds(60)},
                                                         {.address = kThird, .lifetime = std::chrono::seconds(60)}}));
    must(w.world.firewall->set_policy(
        w.slot.index,
        {.policy = compiled(R"({"egress":[{"action":"deny","target":"203.0.113.12"}]})"), .closed = {kOther}}));
    EXPECT_TRUE(w.reaches(kServer));
    EXPECT_FALSE(w.reaches(kOther)) << "closed";
    EXPECT_FALSE(w.reaches(kThird)) << "deny beats what a name opened";
    must(w.world.firewall->set_policy(w.slot.index, {}));
    w.enforce("{}");
    EXPECT_FALSE(w.reaches(kServer)) << "the next sandbox of the slot inherits nothing";
    EXPECT_EQ(w.world.elements("opened"), 0U);
  });
}

TEST(FirewallPolicies, APolicyDoesNotOpenWhatTheOperatorHasClosed) {
  in_policy_world([](PolicyWorld& w) {
    w.enforce(R"({"egress":[{"action":"allow","target":"0.0.0.0/0"}]})");
    must(
        w.world.firewall->open_addresses(w.slot.index, {{.address = kPrivate, .lifetime = std::chrono::seconds(60)},
                                                        {.address = kMetadata, .lifetime = std::chrono::seconds(60)}}));
    for (const std::uint32_t address : {kPrivate, kMetadata, kHostAddress}) EXPECT_FALSE(w.reaches(address));
  });
}

TEST(FirewallPolicies, QuestionsForNamesAreLedToTheEgressProcess) {
  in_policy_world([](PolicyWorld& w) {
    const UniqueFd udp = udp_in(w.world.host.get(), w.world.config.gateway(), kEgressPort);
    const UniqueFd tcp = listen_in(w.world.host.get(), w.world.config.gateway(), kEgressPort);
    const UniqueFd outside = udp_in(w.world.internet.get(), INADDR_ANY, 53);
    const UniqueFd outside_tcp = listen_in(w.world.internet.get(), INADDR_ANY, 53);
    const UniqueFd client = udp_in(w.slot.netns.get(), INADDR_ANY, 0);
    for (const char* policy :
         {"{}", R"({"defaultAction":"allow"})", R"({"egress":[{"action":"allow","target":"0.0.0.0/0"}]})"}) {
      w.enforce(policy);
      for (const std::uint32_t server : {kServer, kPrivate, kMetadata, kHostAddress, w.world.config.gateway()}) {
        send_udp(client, server, 53, "question");
        sockaddr_in from{};
        socklen_t size = sizeof from;
        char text[32];
        ASSERT_TRUE(readable(udp, kLong)) << format_ipv4(server);
        ASSERT_EQ(::recvfrom(udp.get(), text, sizeof text, 0, reinterpret_cast<sockaddr*>(&from), &size), 8);
        EXPECT_EQ(format_ipv4(ntohl(from.sin_addr.s_addr)), w.slot.address) << "tells sandboxes apart";
        ::sendto(udp.get(), "answer", 6, 0, reinterpret_cast<const sockaddr*>(&from), size);
        size = sizeof from;
        ASSERT_TRUE(readable(client, kLong));
        ASSERT_EQ(::recvfrom(client.get(), text, sizeof text, 0, reinterpret_cast<sockaddr*>(&from), &size), 6);
        EXPECT_EQ(ntohl(from.sin_addr.s_addr), server) << "the answer comes from the address that was asked";
        const UniqueFd connection = connect_from(w.slot.netns.get(), server, 53, kLong);
        ASSERT_TRUE(connection) << format_ipv4(server);
        EXPECT_EQ(accept_from(tcp).from, w.slot.address);
      }
    }
    EXPECT_FALSE(readable(outside, std::chrono::milliseconds(0)));
    EXPECT_FALSE(readable(outside_tcp, std::chrono::milliseconds(0)));
    must(w.world.firewall->set_policy(w.slot.index, {}));
    const UniqueFd fresh = udp_in(w.slot.netns.get(), INADDR_ANY, 0);
    send_udp(fresh, kServer, 53, "free");
    EXPECT_EQ(receive_udp(outside), "free");
  });
}

TEST(FirewallPolicies, InterceptedConnectionsComeToTheHostIfThePolicyLetsThemPass) {
  in_policy_world([](PolicyWorld& w) {
    const UniqueFd interceptor = listen_in(w.world.host.get(), w.world.config.gateway(), kInterceptPort);
    SlotPolicy policy = compiled(R"({"egress":[{"action":"allow","target":"203.0.113.10"}]})");
    EXPECT_FALSE(w.reaches(w.world.config.gateway(), kInterceptPort));
    policy.intercept = true;
    must(w.world.firewall->set_policy(w.slot.index, {.policy = policy}));
    for (const std::uint16_t port : {80, 443}) {
      const UniqueFd connection = connect_from(w.slot.netns.get(), kServer, port, kLong);
      ASSERT_TRUE(connection) << port;
      EXPECT_EQ(accept_from(interceptor).from, w.slot.address);
      EXPECT_FALSE(connect_from(w.slot.netns.get(), kOther, port, kLong)) << "the policy denies it";
    }
    EXPECT_FALSE(w.reaches_by_udp(kServer)) << "QUIC";
    EXPECT_FALSE(w.reaches(w.world.config.gateway(), kInterceptPort)) << "directly";
    policy.intercept = false;
    must(w.world.firewall->set_policy(w.slot.index, {.policy = policy}));
    EXPECT_TRUE(w.reaches(kServer));
    EXPECT_TRUE(w.reaches_by_udp(kServer));
  });
}

// The user of the calling thread's new sockets.
class SocketsOf {
 public:
  explicit SocketsOf(std::uint32_t user) { ::setfsuid(user); }
  ~SocketsOf() { ::setfsuid(0); }
  SocketsOf(const SocketsOf&) = delete;
  SocketsOf& operator=(const SocketsOf&) = delete;
};

TEST(FirewallPolicies, TheEgressProcessReachesWhatIsOpenToSandboxesAndItsReports) {
  in_policy_world([](PolicyWorld& w) {
    const std::uint32_t host = w.world.config.gateway();
    const UniqueFd service = listen_in(w.world.host.get(), host, 80);
    const auto reaches = [&](std::uint32_t address, std::uint16_t port) {
      return static_cast<bool>(connect_from(w.world.host.get(), address, port, kLong));
    };
    EXPECT_TRUE(reaches(host, 80)) << "another user";
    EXPECT_TRUE(reaches(kPrivateToo, 80)) << "another user";
    const SocketsOf process(w.world.config.egress_id());
    EXPECT_TRUE(reaches(kServer, 80));
    EXPECT_FALSE(reaches(host, 80));
    EXPECT_FALSE(reaches(kPrivateToo, 80));
    EXPECT_TRUE(reaches(kPrivate, 80)) << "a report's address";
    EXPECT_TRUE(reaches(kPrivateToo, 853)) << "a report's port";
  });
}

// A connection and its other end.
struct Flow {
  Flow(PolicyWorld& w, std::uint32_t address) : inside(connect_from(w.slot.netns.get(), address, 80, kLong)) {
    if (inside) outside = accept_from(w.web).fd;
  }
  bool lives() const { return passes(inside, outside) && passes(outside, inside); }
  // The host answers the next packet with a reset, and nothing arrives.
  bool is_cut() const {
    ::send(inside.get(), "x", 1, MSG_NOSIGNAL);
    char byte = 0;
    return readable(inside, kLong) && ::recv(inside.get(), &byte, 1, 0) == -1 &&
           !readable(outside, std::chrono::milliseconds(0));
  }
  UniqueFd inside, outside;
};

TEST(FirewallPolicies, ANarrowerPolicyCutsConnectionsAtOnce) {
  for (const bool forget_first : {false, true}) {
    in_policy_world([&](PolicyWorld& w) {
      w.enforce(R"({"egress":[{"action":"allow","target":"203.0.113.10/31"}]})");
      must(w.world.firewall->open_addresses(w.slot.index, {{.address = kThird, .lifetime = std::chrono::seconds(60)}}));
      const Flow revoked(w, kServer), kept(w, kOther), closed(w, kThird);
      ASSERT_TRUE(revoked.lives() && kept.lives() && closed.lives());
      must(w.world.firewall->set_policy(
          w.slot.index, {.policy = compiled(R"({"egress":[{"action":"allow","target":"203.0.113.11"}]})"),
                         .closed = {kThird},
                         .narrower = true}));
      if (forget_first) EXPECT_EQ(must(w.world.firewall->end_revoked_connections()), 2U);
      EXPECT_TRUE(revoked.is_cut());
      EXPECT_TRUE(closed.is_cut());
      EXPECT_TRUE(kept.lives());
      if (!forget_first) must(w.world.firewall->end_revoked_connections());
      EXPECT_EQ(w.world.elements("judged_again"), 0U);
      EXPECT_TRUE(kept.lives());
      EXPECT_EQ(must(w.world.firewall->end_revoked_connections()), 0U);
    });
  }
}

TEST(FirewallPolicies, ConnectionsToAddressesOfAllowedNamesOutliveTheirTime) {
  in_policy_world([](PolicyWorld& w) {
    w.enforce("{}");
    std::optional<Flow> kept, revoked;
    ASSERT_TRUE(lifetime_that_suffices([&](std::chrono::seconds lifetime) {
      must(w.world.firewall->open_addresses(
          w.slot.index, {{.address = kServer, .lifetime = lifetime}, {.address = kOther, .lifetime = lifetime}}));
      kept.emplace(w, kServer);
      revoked.emplace(w, kOther);
      return kept->inside && revoked->inside;
    }));
    while (w.reaches(kServer)) continue;
    EXPECT_TRUE(kept->lives() && revoked->lives()) << "their time only counts for new connections";
    must(w.world.firewall->set_policy(w.slot.index, {.policy = compiled("{}"), .kept = {kServer}, .narrower = true}));
    EXPECT_TRUE(kept->lives());
    EXPECT_TRUE(revoked->is_cut());
    EXPECT_FALSE(w.reaches(kServer)) << "no new ones";
    must(w.world.firewall->end_revoked_connections());
    EXPECT_TRUE(kept->lives());
  });
}

TEST(FirewallPolicies, ConnectionsIntoTheSandboxAreNotJudged) {
  in_policy_world([](PolicyWorld& w) {
    w.enforce("{}");
    const UniqueFd server = listen_in(w.slot.netns.get(), INADDR_ANY, 8080);
    const UniqueFd client = connect_from(w.world.host.get(), w.world.config.address(w.slot.index), 8080, kLong);
    const Accepted inside = accept_from(server);
    must(w.world.firewall->set_policy(w.slot.index, {.policy = compiled("{}"), .narrower = true}));
    EXPECT_TRUE(passes(client, inside.fd) && passes(inside.fd, client));
    must(w.world.firewall->end_revoked_connections());
    EXPECT_TRUE(passes(client, inside.fd) && passes(inside.fd, client));
  });
}

TEST(FirewallPolicies, ANewDaemonBuildsTheTableWithPoliciesAndOpenedAddresses) {
  in_policy_world([](PolicyWorld& w) {
    w.enforce(R"({"egress":[{"action":"allow","target":"203.0.113.11"}]})");
    must(w.world.firewall->open_addresses(w.slot.index, {{.address = kServer, .lifetime = std::chrono::seconds(300)},
                                                         {.address = kThird, .lifetime = std::chrono::seconds(300)}}));
    auto next = must(Firewall::open(w.world.config));
    must(next->admit(w.slot.index));
    must(next->set_policy(w.slot.index, {.policy = compiled(R"({"egress":[{"action":"allow","target":"203.0.113.11"},
                                                               {"action":"deny","target":"203.0.113.12"}]})")}));
    must(next->install());
    EXPECT_TRUE(w.reaches(kServer)) << "was opened before";
    EXPECT_TRUE(w.reaches(kOther));
    EXPECT_FALSE(w.reaches(kThird));
    EXPECT_FALSE(w.reaches(kPrivate));
    EXPECT_THAT(next->opened(w.slot.index), ElementsAre(kServer));
    must(next->set_policy(w.slot.index, {.policy = compiled("{}"), .narrower = true}));
    auto third = must(Firewall::open(w.world.config));
    must(third->set_policy(w.slot.index, {.policy = compiled("{}")}));
    must(third->install());
    EXPECT_EQ(w.world.elements("judged_again"), 1U) << "connections that were revoked when the daemon ended";
    auto without = must(Firewall::open(w.world.config));
    must(without->admit(w.slot.index));
    must(without->install());
    EXPECT_EQ(w.world.elements("opened"), 0U) << "of sandboxes without a policy";
  });
}

TEST(FirewallPolicies, ATableThatWasDeletedComesBackWithItsPolicies) {
  in_policy_world([](PolicyWorld& w) {
    w.enforce("{}");
    must(w.world.firewall->open_addresses(w.slot.index, kServerOpen));
    auto netfilter = must(kernel::NetlinkSocket::open(NETLINK_NETFILTER));
    kernel::NftBatch gone(w.world.config.table);
    gone.delete_table();
    must(gone.commit(netfilter));
    must(w.world.firewall->open_addresses(w.slot.index, {{.address = kOther, .lifetime = std::chrono::seconds(60)}}));
    EXPECT_TRUE(w.reaches(kServer));
    EXPECT_TRUE(w.reaches(kOther));
    EXPECT_FALSE(w.reaches(kThird));
  });
}

TEST(FirewallPolicies, TooManyNetworksAreRefused) {
  policy::Policy wide;
  for (int i = 0; i < 4096; ++i) {
    auto rule = must(policy::make_rule(policy::Action::Allow, format_ipv4(0x08000000U + 2 * static_cast<unsigned>(i))));
    for (std::uint16_t port = 1; port <= 5; ++port) rule.ports.push_back(port);
    wide.egress.push_back(std::move(rule));
  }
  const auto refused = compile_policy(policy::address_sets(wide));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::InvalidRequest);
  EXPECT_EQ(
      compiled(R"({"egress":[{"action":"allow","target":"10.0.0.1"},{"action":"allow","target":"10.0.0.0"}]})").allow,
      (std::vector<SlotPolicy::Network>{{.base = 0x0a000000, .length = 31}}));
}

}  // namespace
}  // namespace osb::sandboxd
