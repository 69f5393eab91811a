#include <gtest/gtest.h>

#include "kernel/nftables.h"
#include "sandboxd/network/firewall.h"
#include "sandboxd/network/network_fixture.h"

// Destinations that a sandbox may not choose.
namespace osb::sandboxd {
namespace {

using namespace osb::sandboxd::testing;

constexpr std::uint32_t kContainerGateway = 0xac110001;  // 172.17.0.1
constexpr std::uint32_t kContainer = 0xac110002;         // 172.17.0.2
constexpr std::uint32_t kOffice = 0xc0a80105;            // 192.168.1.5
constexpr std::uint32_t kPrivateResolver = 0x0affff35;   // 10.255.255.53

// The "internet" answers for this address too, and the host's default route leads there.
void add_to_internet(const World& world, std::uint32_t address) {
  auto route = must(kernel::NetlinkSocket::open_in(world.internet.get(), NETLINK_ROUTE));
  kernel::NetlinkBatch batch;
  kernel::add_address(batch, must(kernel::find_link(route, "lo")).index, address, 32, RT_SCOPE_UNIVERSE);
  must(route.run(batch));
}

// A container with a link to the host, and a table that leads port 8080 of every address of the host to its port 80:
// the rules of `docker run -p 8080:80`.
UniqueFd container_with_published_port() {
  UniqueFd container = new_network();
  auto here = must(kernel::NetlinkSocket::open(NETLINK_ROUTE));
  auto there = must(kernel::NetlinkSocket::open_in(container.get(), NETLINK_ROUTE));
  kernel::NetlinkBatch pair;
  kernel::add_veth(pair, {.name = "docker0",
                          .mac = {2, 0, 0, 0, 1, 1},
                          .peer_name = "eth0",
                          .peer_mac = {2, 0, 0, 0, 1, 2},
                          .peer_netns = container.get()});
  must(here.run(pair));
  const unsigned outer = must(kernel::find_link(here, "docker0")).index;
  const unsigned inner = must(kernel::find_link(there, "eth0")).index;
  auto monitor = must(kernel::LinkMonitor::open());
  kernel::NetlinkBatch ours;
  kernel::change_link(ours, outer, {.up = true});
  kernel::add_address(ours, outer, kContainerGateway, 24, RT_SCOPE_UNIVERSE);
  must(here.run(ours));
  kernel::NetlinkBatch theirs;
  kernel::change_link(theirs, inner, {.up = true});
  kernel::add_address(theirs, inner, kContainer, 24, RT_SCOPE_UNIVERSE);
  kernel::add_route(theirs, {.index = inner, .gateway = kContainerGateway});
  must(there.run(theirs));
  must(monitor.wait([&]() -> Result<bool> { return must(kernel::find_link(here, "docker0")).running; }, kLong));

  const std::vector<kernel::NftField> key = {kernel::NftField::Protocol, kernel::NftField::DestinationPort};
  auto netfilter = must(kernel::NetlinkSocket::open(NETLINK_NETFILTER));
  kernel::NftBatch batch("docker");
  batch.add_table();
  batch.add_map("ports", key);
  kernel::NftElement port;
  port.key.protocol(IPPROTO_TCP).port(8080);
  port.data.address(kContainer).port(80);
  batch.add_elements("ports", {port});
  constexpr std::uint32_t kPreRouting = 0;
  constexpr std::int32_t kDestination = -100;
  batch.add_chain({.name = "prerouting", .type = "nat", .hook = kPreRouting, .priority = kDestination});
  batch.add_rule("prerouting",
                 std::move(kernel::NftRule().ipv4().destination_type(RTN_LOCAL).translate_destination("ports", key)));
  must(batch.commit(netfilter));
  return container;
}

TEST(FirewallDestinations, APortThatAnotherTableTranslatesBelongsToTheHost) {
  for (const bool allow_private : {false, true}) {
    in_own_network([&] {
      World world;
      world.config.allow_private_networks = allow_private;
      world.start();
      const UniqueFd container = container_with_published_port();
      const UniqueFd server = listen_in(container.get(), INADDR_ANY, 80);
      ASSERT_TRUE(connect_from(world.internet.get(), kHostAddress, 8080, kLong)) << "the rule works";
      accept_from(server);
      const Slot slot = world.take();
      for (const std::uint32_t address : {kHostAddress, world.config.gateway(), kContainerGateway})
        EXPECT_FALSE(connect_from(slot.netns.get(), address, 8080, kShort)) << format_ipv4(address);
      EXPECT_FALSE(readable(server, std::chrono::milliseconds(0)));
      EXPECT_EQ(static_cast<bool>(connect_from(slot.netns.get(), kContainer, 80, kShort)), allow_private);
    });
  }
}

struct Destination {
  const char* address;
  bool reached;
};

void expect_reached(World& world, const std::vector<Destination>& rows) {
  for (const Destination& row : rows) add_to_internet(world, must(parse_ipv4(row.address)));
  world.start();
  const Slot slot = world.take();
  const UniqueFd server = listen_in(world.internet.get(), INADDR_ANY, 80);
  for (const Destination& row : rows) {
    const auto timeout = row.reached ? kLong : kShort;
    EXPECT_EQ(static_cast<bool>(connect_from(slot.netns.get(), must(parse_ipv4(row.address)), 80, timeout)),
              row.reached)
        << row.address;
  }
}

TEST(FirewallDestinations, MetadataAndPrivateAddressesAreClosed) {
  in_own_network([] {
    World world;
    expect_reached(
        world,
        {{"169.254.169.254", false}, {"169.254.170.2", false}, {"169.254.0.1", false},     {"169.254.255.254", false},
         {"100.100.100.200", false}, {"168.63.129.16", false}, {"192.0.0.192", false},     {"10.0.0.1", false},
         {"10.255.255.254", false},  {"172.16.0.1", false},    {"172.31.255.254", false},  {"192.168.0.1", false},
         {"192.168.255.254", false}, {"100.64.0.1", false},    {"100.127.255.254", false}, {"9.255.255.254", true},
         {"11.0.0.1", true},         {"172.15.255.254", true}, {"172.32.0.1", true},       {"192.167.255.254", true},
         {"192.169.0.1", true},      {"100.63.255.254", true}, {"100.128.0.1", true},      {"169.253.255.254", true},
         {"168.63.129.17", true},    {"203.0.113.10", true}});
  });
}

TEST(FirewallDestinations, BlockedNetworksComeOnTop) {
  in_own_network([] {
    World world;
    world.config.blocked = {must(parse_subnet("203.0.113.0/24"))};
    expect_reached(world, {{"203.0.113.10", false},
                           {"169.254.169.254", false},
                           {"100.100.100.200", false},
                           {"192.168.1.5", false},
                           {"11.0.0.1", true}});
  });
}

TEST(FirewallDestinations, PrivateNetworksAreOpenedByASwitchAndMetadataIsNot) {
  in_own_network([] {
    World world;
    world.config.allow_private_networks = true;
    world.config.blocked = {must(parse_subnet("192.168.1.0/24"))};
    expect_reached(world, {{"10.0.0.1", true},
                           {"192.168.2.5", true},
                           {"192.168.1.5", false},
                           {"100.64.0.1", true},
                           {"100.100.100.200", false},
                           {"169.254.169.254", false}});
  });
}

TEST(FirewallDestinations, PrivateNetworksAreOpenedByAListAndMetadataIsNot) {
  in_own_network([] {
    World world;
    world.config.allowed_networks = {must(parse_subnet("192.168.1.0/24")), must(parse_subnet("100.64.0.0/10"))};
    expect_reached(world, {{"192.168.1.5", true},
                           {"192.168.2.5", false},
                           {"10.0.0.1", false},
                           {"100.64.0.1", true},
                           {"100.100.100.200", false}});
  });
}

TEST(FirewallDestinations, AMetadataAddressIsOpenedByItsOwnList) {
  in_own_network([] {
    World world;
    world.config.allowed_metadata = {must(parse_subnet("169.254.169.254/32"))};
    expect_reached(
        world, {{"169.254.169.254", true}, {"169.254.170.2", false}, {"100.100.100.200", false}, {"10.0.0.1", false}});
  });
}

TEST(FirewallDestinations, NameServersInClosedNetworksAnswerOnPort53Only) {
  in_own_network([] {
    World world;
    for (const std::uint32_t address : {kPrivateResolver, kOffice}) add_to_internet(world, address);
    world.firewall = must(Firewall::open(world.config));
    must(world.firewall->allow_resolvers({kPrivateResolver}));  // before the table exists
    must(world.firewall->install());
    world.pool = must(SlotPool::create(world.config, *world.firewall));
    must(world.pool->start());
    const Slot slot = world.take();
    const UniqueFd tcp = listen_in(world.internet.get(), INADDR_ANY, 53);
    const UniqueFd web = listen_in(world.internet.get(), INADDR_ANY, 80);
    const UniqueFd udp = udp_in(world.internet.get(), INADDR_ANY, 53);
    const UniqueFd client = udp_in(slot.netns.get(), INADDR_ANY, 0);
    for (const std::uint32_t server : {kPrivateResolver, kMetadata, kHostAddress}) {
      // Google's name server has the metadata address; that of a small office is on the host itself.
      must(world.firewall->allow_resolvers({server}));
      const UniqueFd local = server == kHostAddress ? listen_in(world.host.get(), kHostAddress, 53) : UniqueFd();
      EXPECT_TRUE(connect_from(slot.netns.get(), server, 53, kLong)) << format_ipv4(server);
      EXPECT_FALSE(connect_from(slot.netns.get(), server, 80, kShort)) << format_ipv4(server);
    }
    send_udp(client, kOffice, 53, "to another");
    send_udp(client, kPrivateResolver, 53, "to the name server");
    EXPECT_EQ(receive_udp(udp), "to the name server");
    EXPECT_FALSE(connect_from(slot.netns.get(), kOffice, 53, kShort));
    EXPECT_EQ(world.elements("resolvers"), 6U);
  });
}

TEST(FirewallDestinations, ATableThatWasDeletedComesBackWithItsNameServers) {
  in_world([](World& world) {
    must(world.firewall->allow_resolvers({kPrivateResolver}));
    auto netfilter = must(kernel::NetlinkSocket::open(NETLINK_NETFILTER));
    kernel::NftBatch gone(world.config.table);
    gone.delete_table();
    must(gone.commit(netfilter));
    must(world.firewall->allow_resolvers({kOffice}));
    EXPECT_EQ(world.elements("resolvers"), 4U);
  });
}

TEST(FirewallDestinations, AClientInAPrivateNetworkIsAnsweredByAPublishedPort) {
  in_own_network([] {
    World world;
    add_to_internet(world, kOffice);
    world.start();
    const Slot slot = world.take();
    const UniqueFd server = listen_in(slot.netns.get(), INADDR_ANY, 80);
    must(world.firewall->publish({.host_port = 8080, .host_only = false, .slot = slot.index, .port = 80}));
    const UniqueFd client = socket_in(world.internet.get(), SOCK_STREAM);
    bind_to(client, kOffice, 0);
    const sockaddr_in where = ip_address(kHostAddress, 8080);
    ASSERT_EQ(::connect(client.get(), reinterpret_cast<const sockaddr*>(&where), sizeof where), 0);
    const Accepted there = accept_from(server);
    EXPECT_EQ(there.from, "192.168.1.5");
    EXPECT_TRUE(passes(client, there.fd) && passes(there.fd, client));
  });
}

TEST(FirewallDestinations, AClosedDestinationIsRefusedAtOnce) {
  in_world([](World& world) {
    const Slot slot = world.take();
    for (const std::uint32_t address : {kOffice, kMetadata, kHostAddress, world.config.gateway()}) {
      const UniqueFd fd = socket_in(slot.netns.get(), SOCK_STREAM | SOCK_NONBLOCK);
      const sockaddr_in where = ip_address(address, 80);
      (void)::connect(fd.get(), reinterpret_cast<const sockaddr*>(&where), sizeof where);
      pollfd wanted{.fd = fd.get(), .events = POLLOUT, .revents = 0};
      ASSERT_EQ(::poll(&wanted, 1, static_cast<int>(kLong.count())), 1) << format_ipv4(address);
      int error = 0;
      socklen_t size = sizeof error;
      ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
      EXPECT_EQ(error, ECONNREFUSED) << format_ipv4(address);
    }
  });
}

}  // namespace
}  // namespace osb::sandboxd
