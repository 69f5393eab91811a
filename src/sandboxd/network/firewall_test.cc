#include "sandboxd/network/firewall.h"

#include <sys/syscall.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel/nftables.h"
#include "sandboxd/network/network_fixture.h"
#include "sys/text_file.h"

namespace osb::sandboxd {
namespace {

using namespace osb::sandboxd::testing;
using ::testing::HasSubstr;

constexpr std::uint16_t kExecdPort = 44772;
constexpr std::uint32_t kForwardHook = 2;  // NF_INET_FORWARD

std::uint32_t address_of(const World& world, const Slot& slot) { return world.config.address(slot.index); }

TEST(Firewall, ASandboxReachesTheInternetWithTheHostsAddress) {
  in_world([](World& world) {
    const Slot slot = world.take();
    const UniqueFd server = listen_in(world.internet.get(), kServer, 80);
    const UniqueFd client = connect_from(slot.netns.get(), kServer, 80, kLong);
    ASSERT_TRUE(client);
    const Accepted there = accept_from(server);
    EXPECT_EQ(there.from, "198.51.100.2");
    EXPECT_TRUE(passes(client, there.fd));
    EXPECT_TRUE(passes(there.fd, client));
  });
}

TEST(Firewall, SandboxesDoNotReachEachOtherAndTheHostReachesBoth) {
  in_world([](World& world) {
    const Slot one = world.take();
    const Slot other = world.take();
    const UniqueFd execd = listen_in(other.netns.get(), INADDR_ANY, kExecdPort);
    EXPECT_FALSE(connect_from(one.netns.get(), address_of(world, other), kExecdPort, kShort));
    EXPECT_FALSE(readable(execd, std::chrono::milliseconds(0)));
    ASSERT_TRUE(connect_from(world.host.get(), address_of(world, other), kExecdPort, kLong));
    EXPECT_EQ(accept_from(execd).from, "10.90.0.1") << "the gateway, not an address of the host's network";
  });
}

TEST(Firewall, OtherMachinesCannotReachASandboxByItsAddress) {
  in_world([](World& world) {
    const Slot slot = world.take();
    const UniqueFd execd = listen_in(slot.netns.get(), INADDR_ANY, kExecdPort);
    auto route = must(kernel::NetlinkSocket::open_in(world.internet.get(), NETLINK_ROUTE));
    kernel::NetlinkBatch batch;  // a neighbour that knows the way
    kernel::add_route(batch, {.destination = world.config.subnet.base,
                              .prefix_length = world.config.subnet.prefix_length,
                              .gateway = kHostAddress});
    must(route.run(batch));
    EXPECT_FALSE(connect_from(world.internet.get(), address_of(world, slot), kExecdPort, kShort));
    EXPECT_FALSE(readable(execd, std::chrono::milliseconds(0)));
  });
}

TEST(Firewall, TheHostsServicesAreClosedUnlessConfigured) {
  in_own_network([] {
    World world;
    world.config.host_services = {{.protocol = Protocol::Tcp, .port = 3128}, {.protocol = Protocol::Udp, .port = 53}};
    world.start();
    const Slot slot = world.take();
    const UniqueFd closed = listen_in(world.host.get(), INADDR_ANY, 22);
    for (const std::uint32_t address : {world.config.gateway(), kHostAddress})
      EXPECT_FALSE(connect_from(slot.netns.get(), address, 22, kShort)) << format_ipv4(address);
    EXPECT_FALSE(readable(closed, std::chrono::milliseconds(0)));
    const UniqueFd open = listen_in(world.host.get(), INADDR_ANY, 3128);
    EXPECT_TRUE(connect_from(slot.netns.get(), world.config.gateway(), 3128, kLong));
    const UniqueFd resolver = udp_in(world.host.get(), world.config.gateway(), 53);
    send_udp(udp_in(slot.netns.get(), INADDR_ANY, 5000), world.config.gateway(), 53, "query");
    EXPECT_EQ(receive_udp(resolver), "query");
  });
}

TEST(Firewall, TheGatewayAnswersPingIfConfigured) {
  for (const bool answer : {true, false}) {
    in_own_network([answer] {
      World world;
      world.config.answer_ping = answer;
      world.start();
      const Slot slot = world.take();
      const UniqueFd ping = must(kernel::in_network_namespace(slot.netns.get(), [&]() -> Result<UniqueFd> {
        ::syscall(SYS_setresgid, -1, slot.id_base + 1000, -1);  // any group of the sandbox; of this thread only
        UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_ICMP));
        if (!fd) return sys::from_errno("ping socket", errno);
        return fd;
      }));
      send_udp(ping, world.config.gateway(), 0, std::string("\x08\0\0\0\0\0\0\x01", 8));
      EXPECT_EQ(readable(ping, answer ? kLong : kShort), answer);
    });
  }
}

TEST(Firewall, TheMetadataServiceIsHidden) {
  in_own_network([] {
    World world;
    world.config.blocked.push_back(must(parse_subnet("198.51.100.0/24")));
    world.start();
    const Slot slot = world.take();
    const UniqueFd metadata = listen_in(world.internet.get(), INADDR_ANY, 80);
    EXPECT_FALSE(connect_from(slot.netns.get(), kMetadata, 80, kShort));
    EXPECT_FALSE(connect_from(slot.netns.get(), kInternetNeighbour, 80, kShort)) << "blocked by configuration";
    EXPECT_TRUE(connect_from(slot.netns.get(), kServer, 80, kLong)) << "while others are reached";
  });
}

TEST(Firewall, SpoofedSourcesAreDropped) {
  in_world([](World& world) {
    const Slot slot = world.take();
    // Without the kernel's own check, which would do it alone.
    const std::string flag = "/proc/sys/net/ipv4/conf/" + slot.interface + "/rp_filter";
    EXPECT_EQ(must(sys::read_text(flag)), "1\n");
    must(sys::write_text(flag, "0"));
    const Slot neighbour = world.take();
    const UniqueFd server = udp_in(world.internet.get(), kServer, 9000);
    inject_udp(slot, address_of(world, neighbour), kServer, 9000, "as a neighbour");
    inject_udp(slot, world.config.gateway(), kServer, 9000, "as the gateway");
    inject_udp(slot, kHostAddress, kServer, 9000, "as the host");
    inject_udp(slot, 0x08080808, kServer, 9000, "as a stranger");
    inject_udp(slot, address_of(world, slot), kServer, 9000, "as itself");
    EXPECT_EQ(receive_udp(server), "as itself");
    EXPECT_FALSE(readable(server, std::chrono::milliseconds(0)));
  });
}

TEST(Firewall, OtherMachinesCannotForgeASandboxsAddress) {
  in_world([](World& world) {
    auto route = must(kernel::NetlinkSocket::open_in(world.internet.get(), NETLINK_ROUTE));
    kernel::NetlinkBatch batch;
    kernel::add_address(batch, must(kernel::find_link(route, "lo")).index, world.config.address(99), 32,
                        RT_SCOPE_UNIVERSE);
    must(route.run(batch));
    const UniqueFd service = udp_in(world.host.get(), INADDR_ANY, 9000);
    send_udp(udp_in(world.internet.get(), world.config.address(99), 9000), kHostAddress, 9000, "as a sandbox");
    send_udp(udp_in(world.internet.get(), kServer, 9000), kHostAddress, 9000, "as itself");
    EXPECT_EQ(receive_udp(service), "as itself");
    EXPECT_FALSE(readable(service, std::chrono::milliseconds(0)));
  });
}

TEST(Firewall, WithoutMembershipNothingLeavesASlot) {
  in_world([](World& world) {
    const Slot slot = world.take();
    const UniqueFd server = udp_in(world.internet.get(), kServer, 9000);
    must(world.firewall->expel(slot.index));
    inject_udp(slot, address_of(world, slot), kServer, 9000, "expelled");
    must(world.firewall->admit(slot.index));
    inject_udp(slot, address_of(world, slot), kServer, 9000, "admitted");
    EXPECT_EQ(receive_udp(server), "admitted");
  });
}

TEST(Firewall, APublishedPortWorksFromTheHostAndWhenAskedForFromOutside) {
  in_world([](World& world) {
    const Slot slot = world.take();
    const Slot neighbour = world.take();
    const UniqueFd server = listen_in(slot.netns.get(), INADDR_ANY, 8000);
    const std::uint16_t host_only = must(world.firewall->publish({.slot = slot.index, .port = 8000}));
    EXPECT_NE(host_only, 0);
    struct {
      const char* why;
      int from;
      std::uint32_t address;
      bool works;
    } rows[] = {{"loopback", world.host.get(), INADDR_LOOPBACK, true},
                {"own address", world.host.get(), kHostAddress, true},
                {"gateway address", world.host.get(), world.config.gateway(), true},
                {"other machines", world.internet.get(), kHostAddress, false},
                {"another sandbox by the host's address", neighbour.netns.get(), kHostAddress, false},
                {"another sandbox by the gateway", neighbour.netns.get(), world.config.gateway(), false}};
    for (const auto& row : rows) {
      const UniqueFd client = connect_from(row.from, row.address, host_only, row.works ? kLong : kShort);
      EXPECT_EQ(static_cast<bool>(client), row.works) << row.why;
      if (!client) continue;
      const Accepted there = accept_from(server);
      EXPECT_TRUE(passes(client, there.fd) && passes(there.fd, client)) << row.why;
    }
    const std::uint16_t open =
        must(world.firewall->publish({.host_port = 8080, .host_only = false, .slot = slot.index, .port = 8000}));
    EXPECT_EQ(open, 8080);
    EXPECT_TRUE(connect_from(world.internet.get(), kHostAddress, 8080, kLong));
    EXPECT_EQ(accept_from(server).from, "198.51.100.1") << "the sandbox sees who it is";
    EXPECT_TRUE(connect_from(world.host.get(), INADDR_LOOPBACK, 8080, kLong));
    EXPECT_FALSE(connect_from(neighbour.netns.get(), kHostAddress, 8080, kShort));
    EXPECT_EQ(world.firewall->published(slot.index).size(), 2U);

    must(world.firewall->unpublish(Protocol::Tcp, 8080));
    EXPECT_FALSE(connect_from(world.internet.get(), kHostAddress, 8080, kShort));
    EXPECT_FALSE(connect_from(world.host.get(), INADDR_LOOPBACK, 8080, kShort));
    EXPECT_TRUE(connect_from(world.host.get(), INADDR_LOOPBACK, host_only, kLong)) << "the other one stays";
  });
}

TEST(Firewall, UdpPortsArePublishedToo) {
  in_world([](World& world) {
    const Slot slot = world.take();
    const UniqueFd server = udp_in(slot.netns.get(), INADDR_ANY, 5353);
    must(world.firewall->publish(
        {.protocol = Protocol::Udp, .host_port = 53, .host_only = false, .slot = slot.index, .port = 5353}));
    send_udp(udp_in(world.internet.get(), INADDR_ANY, 0), kHostAddress, 53, "from outside");
    EXPECT_EQ(receive_udp(server), "from outside");
    send_udp(udp_in(world.host.get(), INADDR_ANY, 0), INADDR_LOOPBACK, 53, "from loopback");
    EXPECT_EQ(receive_udp(server), "from loopback");
  });
}

TEST(Firewall, PublishingDoesNotOpenTheHostsLoopbackToTheSandbox) {
  in_own_network([] {
    World world;
    world.config.host_services = {{.protocol = Protocol::Udp, .port = 9000}};  // at other addresses
    world.start();
    const Slot slot = world.take();
    must(world.firewall->publish({.slot = slot.index, .port = 8000}));
    const std::string flag = "/proc/sys/net/ipv4/conf/" + slot.interface + "/route_localnet";
    EXPECT_EQ(must(sys::read_text(flag)), "1\n") << "otherwise this test proves nothing";
    const UniqueFd service = udp_in(world.host.get(), INADDR_LOOPBACK, 9000);
    inject_udp(slot, address_of(world, slot), INADDR_LOOPBACK, 9000, "from the sandbox");
    inject_udp(slot, INADDR_LOOPBACK, INADDR_LOOPBACK, 9000, "as the host");
    send_udp(udp_in(world.host.get(), INADDR_ANY, 0), INADDR_LOOPBACK, 9000, "from the host");
    EXPECT_EQ(receive_udp(service), "from the host");
    EXPECT_FALSE(readable(service, std::chrono::milliseconds(0)));
    must(world.firewall->unpublish_all(slot.index));
    EXPECT_EQ(must(sys::read_text(flag)), "0\n");
  });
}

TEST(Firewall, APortThatTheHostUsesIsNotTakenAway) {
  in_world([](World& world) {
    const Slot slot = world.take();
    const UniqueFd ssh = listen_in(world.host.get(), INADDR_LOOPBACK, 22);
    const auto refused = world.firewall->publish({.host_port = 22, .slot = slot.index, .port = 22});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::Conflict);
    EXPECT_THAT(refused.error().message, HasSubstr("publish host port 22/tcp"));
    must(world.firewall->publish({.host_port = 2222, .slot = slot.index, .port = 22}));
    EXPECT_FALSE(world.firewall->publish({.host_port = 2222, .slot = slot.index, .port = 23}));
    EXPECT_THROW(listen_in(world.host.get(), INADDR_ANY, 2222), std::runtime_error) << "nor the other way round";
    EXPECT_EQ(world.elements("published"), 1U);
  });
}

TEST(Firewall, GivingASlotBackEndsItsPublishedPorts) {
  in_world([](World& world) {
    Slot slot = world.take();
    must(world.firewall->publish({.host_port = 2222, .host_only = false, .slot = slot.index, .port = 22}));
    world.pool->give_back(std::move(slot), true);
    EXPECT_EQ(world.elements("published"), 0U);
    EXPECT_EQ(world.elements("published_outside"), 0U);
    EXPECT_NO_THROW(listen_in(world.host.get(), INADDR_ANY, 2222));
  });
}

TEST(Firewall, AfterARestartPublishedPortsAndTheirConnectionsGoOn) {
  in_world([](World& world) {
    const Slot slot = world.take();
    const UniqueFd server = listen_in(slot.netns.get(), INADDR_ANY, 8000);
    const PublishedPort port{.host_port = 8080, .host_only = false, .slot = slot.index, .port = 8000};
    must(world.firewall->publish(port));
    const UniqueFd outside = connect_from(world.internet.get(), kHostAddress, 8080, kLong);
    const Accepted outside_there = accept_from(server);
    const UniqueFd local = connect_from(world.host.get(), INADDR_LOOPBACK, 8080, kLong);
    const Accepted local_there = accept_from(server);
    world.restart();
    must(world.firewall->admit(slot.index));
    must(world.firewall->publish(port));
    must(world.firewall->install());
    EXPECT_TRUE(passes(outside, outside_there.fd) && passes(outside_there.fd, outside));
    EXPECT_TRUE(passes(local, local_there.fd) && passes(local_there.fd, local));
    EXPECT_TRUE(connect_from(world.internet.get(), kHostAddress, 8080, kLong));
  });
}

TEST(Firewall, ADeletedTableIsBuiltAgain) {
  in_own_network([] {
    World world;
    world.config.ready_slots = 0;
    world.start();
    const Slot slot = world.take();
    auto netfilter = must(kernel::NetlinkSocket::open(NETLINK_NETFILTER));
    kernel::NftBatch flush(world.config.table);
    flush.delete_table();
    must(flush.commit(netfilter));
    const Slot next = world.take();
    EXPECT_EQ(world.elements("members"), 2U);
    const UniqueFd server = listen_in(world.internet.get(), kServer, 80);
    EXPECT_TRUE(connect_from(slot.netns.get(), kServer, 80, kLong));
  });
}

TEST(Firewall, ASubnetThatTheHostUsesIsRefused) {
  in_own_network([] {
    World world;
    for (const char* used : {"198.51.100.0/25", "198.51.0.0/16", "198.51.100.0/24"}) {
      world.config.subnet = must(parse_subnet(used));
      const auto firewall = must(Firewall::open(world.config));
      const auto installed = firewall->install();
      ASSERT_FALSE(installed) << used;
      EXPECT_EQ(installed.error().code, Code::Conflict);
      EXPECT_THAT(installed.error().message, HasSubstr("this host already uses 198.51.100."));
    }
  });
}

TEST(Firewall, RemovingItLeavesNothing) {
  in_world([](World& world) {
    world.pool.reset();
    must(world.firewall->remove());
    auto netfilter = must(kernel::NetlinkSocket::open(NETLINK_NETFILTER));
    EXPECT_TRUE(must(kernel::list_chains(netfilter)).empty());
    auto route = must(kernel::NetlinkSocket::open(NETLINK_ROUTE));
    for (const kernel::Route& there : must(kernel::list_routes(route)))
      EXPECT_FALSE(there.prefix_length > 0 && world.config.subnet.contains(there.destination));
  });
}

TEST(Firewall, OthersThatDropForwardedPacketsAreNamed) {
  in_own_network([] {
    NetworkConfig config;
    EXPECT_THAT(must(foreign_forward_drops(config)), ::testing::IsEmpty());
    auto netfilter = must(kernel::NetlinkSocket::open(NETLINK_NETFILTER));
    kernel::NftBatch batch("strict");
    batch.add_table();
    batch.add_chain({.name = "FORWARD", .hook = kForwardHook, .drop_by_default = true});
    must(batch.commit(netfilter));
    const auto found = must(foreign_forward_drops(config));
    ASSERT_EQ(found.size(), 1u);
    EXPECT_THAT(found[0].what, HasSubstr("chain FORWARD of table strict drops forwarded packets"));
    EXPECT_THAT(found[0].advice, HasSubstr("iptables -I FORWARD -i " + config.interface_prefix));
  });
}

}  // namespace
}  // namespace osb::sandboxd
