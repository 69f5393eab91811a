#include <charconv>
#include <chrono>

#include <gtest/gtest.h>

#include "kernel/connection_limit.h"
#include "kernel/netlink_rate.h"
#include "kernel/nftables.h"
#include "sandboxd/network/firewall.h"
#include "sandboxd/network/network_fixture.h"
#include "sys/text_file.h"

// Limits of one sandbox: connections that the kernel tracks, and bandwidth.
namespace osb::sandboxd {
namespace {

using namespace osb::sandboxd::testing;
using Clock = std::chrono::steady_clock;

// Entries in the table of connections of this network namespace.
unsigned connections() {
  const std::string text = must(sys::read_text("/proc/sys/net/netfilter/nf_conntrack_count"));
  unsigned count = 0;
  std::from_chars(text.data(), text.data() + text.size(), count);
  return count;
}

// One datagram to each of so many ports: as many connections.
void send_to_ports(const Slot& slot, unsigned ports) {
  const UniqueFd sender = udp_in(slot.netns.get(), INADDR_ANY, 0);
  for (unsigned i = 0; i < ports; ++i) send_udp(sender, kServer, static_cast<std::uint16_t>(9000 + i), "x");
}

// Connections, each closed before the next, until one is refused that is not among the first `least`: a loaded host may
// be late with one of those, which is then tried again. `slot_of` names the sandbox of each.
unsigned connect_until_refused(const UniqueFd& server, unsigned least,
                               const std::function<const Slot&(unsigned)>& slot_of) {
  constexpr unsigned kMost = 400, kMostLate = 20;
  unsigned made = 0;
  for (unsigned late = 0; made < kMost && late < kMostLate;) {
    const UniqueFd client = connect_from(slot_of(made).netns.get(), kServer, 80, kShort);
    if (!client && made >= least) break;
    if (!client) {
      ++late;
      continue;
    }
    const Accepted there = accept_from(server);
    ++made;
  }
  return made;
}

TEST(NetworkLimits, ASandboxBeginsNoMoreConnectionsThanItsLimitAndItsNeighbourIsFree) {
  in_own_network([] {
    World world;
    world.config.max_connections = 20;
    world.start();
    const Slot slot = world.take();
    const Slot neighbour = world.take();
    const UniqueFd server = udp_in(world.internet.get(), kServer, 9000);
    const UniqueFd first = udp_in(slot.netns.get(), INADDR_ANY, 0);
    send_udp(first, kServer, 9000, "first");
    EXPECT_EQ(receive_udp(server), "first");
    for (int i = 0; i < 5; ++i) send_to_ports(slot, 100);
    EXPECT_EQ(connections(), 20U);
    send_udp(first, kServer, 9000, "again");
    while (true) {  // some of the flood came here, too
      const std::string text = receive_udp(server);
      if (text != "x") {
        EXPECT_EQ(text, "again") << "a connection that is there goes on";
        break;
      }
    }
    const UniqueFd web = listen_in(world.internet.get(), kServer, 80);
    EXPECT_FALSE(connect_from(slot.netns.get(), kServer, 80, kShort));
    EXPECT_TRUE(connect_from(neighbour.netns.get(), kServer, 80, kLong));
    const UniqueFd execd = listen_in(slot.netns.get(), INADDR_ANY, 44772);
    EXPECT_TRUE(connect_from(world.host.get(), world.config.address(slot.index), 44772, kLong)) << "the host gets in";
  });
}

TEST(NetworkLimits, AllSandboxesTogetherLeaveEntriesForTheHost) {
  in_own_network([] {
    World world;
    world.config.max_connections = 2000;
    world.config.total_connections = 2500;  // two meters
    world.start();
    const Slot one = world.take(), two = world.take();
    for (const Slot* slot : {&one, &two}) {
      for (int i = 0; i < 3; ++i) send_to_ports(*slot, 1500);
    }
    EXPECT_LE(connections(), 2500U);
    EXPECT_GT(connections(), 2400U) << "the meters are filled in turn";
    const UniqueFd execd = listen_in(one.netns.get(), INADDR_ANY, 44772);
    EXPECT_TRUE(connect_from(world.host.get(), world.config.address(one.index), 44772, kLong)) << "the host gets in";
    const UniqueFd server = udp_in(world.internet.get(), kServer, 9000);
    send_udp(udp_in(world.host.get(), INADDR_ANY, 0), kServer, 9000, "host");
    EXPECT_EQ(receive_udp(server), "host") << "the host's own connections do not count";
  });
}

TEST(NetworkLimits, NewTcpConnectionsOfAllSandboxesHaveOneRate) {
  in_own_network([] {
    World world;
    world.config.max_connections = 1000;
    world.config.total_connections = 40;
    world.start();
    const Slot slots[] = {world.take(), world.take()};
    const UniqueFd server = listen_in(world.internet.get(), kServer, 80);
    const auto start = Clock::now();
    const unsigned made =
        connect_until_refused(server, 39, [&](unsigned made) -> const Slot& { return slots[made % 2]; });
    const auto seconds = std::chrono::ceil<std::chrono::seconds>(Clock::now() - start).count();
    EXPECT_GE(made, 39U);
    EXPECT_LE(made, 40U + static_cast<unsigned>(seconds) + 1);
  });
}

TEST(NetworkLimits, TheTableOfTheKernelTellsTheConnectionsOfAll) {
  EXPECT_EQ(kernel::connections_of_all(262'144), 39'321);
  EXPECT_EQ(kernel::connections_of_all(1), 1);
  in_own_network([] {
    World world;
    world.config.total_connections = -1;
    world.start();
    auto netfilter = must(kernel::NetlinkSocket::open(NETLINK_NETFILTER));
    EXPECT_FALSE(must(kernel::list_elements(netfilter, world.config.table, "connections_of_all")).empty());
  });
}

TEST(NetworkLimits, ManyDatagramsOfOneConnectionCountOnce) {
  in_own_network([] {
    World world;
    world.config.max_connections = 20;
    world.start();
    const Slot slot = world.take();
    const UniqueFd sender = udp_in(slot.netns.get(), INADDR_ANY, 0);
    for (int i = 0; i < 1000; ++i) send_udp(sender, kServer, 9000, "x");  // without an answer
    send_to_ports(slot, 19);
    EXPECT_EQ(connections(), 20U);
  });
}

TEST(NetworkLimits, ConnectionsThatWereForgottenMakeRoom) {
  in_own_network([] {
    World world;
    world.config.max_connections = 20;
    world.config.recycle_batch = 1;
    world.config.subnet = must(parse_subnet("10.90.0.0/29"));
    world.config.ready_slots = 0;
    world.start();
    for (int i = 0; i < 6; ++i) {  // five addresses: one is used again
      Slot slot = world.take();
      // The kernel takes a few forgotten connections out of its count with each packet, so one round may not be enough.
      for (int round = 0; round == 0 || (round < 20 && connections() < 20); ++round) send_to_ports(slot, 100);
      EXPECT_EQ(connections(), 20U);
      world.pool->give_back(std::move(slot), true);
      world.pool->wait_until_idle();
      EXPECT_EQ(connections(), 0U);
    }
  });
}

TEST(NetworkLimits, ClosedTcpConnectionsAreLimitedByTheirRate) {
  in_own_network([] {
    World world;
    world.config.max_connections = 40;
    world.start();
    const Slot slot = world.take();
    const UniqueFd server = listen_in(world.internet.get(), kServer, 80);
    const auto start = Clock::now();
    const unsigned made = connect_until_refused(server, 40, [&](unsigned) -> const Slot& { return slot; });
    const auto seconds = std::chrono::ceil<std::chrono::seconds>(Clock::now() - start).count();
    EXPECT_GE(made, 40U);
    EXPECT_LE(made, 40U + static_cast<unsigned>(seconds) + 1);
    EXPECT_LE(connections(), made + 1);
  });
}

TEST(NetworkLimits, ConnectionsAreTrackedAfterManySlotsHaveComeAndGone) {
  in_own_network([] {
    World world;
    world.config.max_connections = 20;
    world.start();
    const Slot slot = world.take();
    for (unsigned other = 100; other < 150; ++other) must(world.firewall->admit(other));
    must(world.firewall->install());
    for (unsigned other = 100; other < 150; ++other) must(world.firewall->expel(other));
    for (int i = 0; i < 200; ++i) {
      must(world.firewall->admit(100));
      must(world.firewall->expel(100));
    }
    send_to_ports(slot, 100);
    EXPECT_EQ(connections(), 20U);
    const UniqueFd execd = listen_in(slot.netns.get(), INADDR_ANY, 44772);
    EXPECT_TRUE(connect_from(world.host.get(), world.config.address(slot.index), 44772, kLong));
  });
}

TEST(NetworkLimits, NoLimitIsNone) {
  in_own_network([] {
    World world;
    world.config.max_connections = 0;
    world.start();
    const Slot slot = world.take();
    send_to_ports(slot, 5000);
    EXPECT_EQ(connections(), 5000U);
  });
}

TEST(NetworkLimits, ConnectionsOfARemovedSandboxAreForgottenWithoutABatch) {
  in_own_network([] {
    World world;
    world.config.forget_after = std::chrono::milliseconds(0);
    world.start();
    for (const bool recyclable : {true, false}) {
      Slot slot = world.take();
      send_to_ports(slot, 50);
      EXPECT_EQ(connections(), 50U);
      world.pool->give_back(std::move(slot), recyclable);
      world.pool->wait_until_idle();
      EXPECT_EQ(connections(), 0U);
    }
  });
}

TEST(NetworkLimits, AStartForgetsTheConnectionsOfSandboxesThatAreGone) {
  in_world([](World& world) {
    {
      const Slot slot = world.take();
      send_to_ports(slot, 50);
      world.restart();  // the earlier daemon is killed before it could forget them, and its sandbox with it
    }
    EXPECT_EQ(connections(), 50U);
    must(world.firewall->install());
    must(world.pool->start());
    EXPECT_EQ(connections(), 0U);
  });
}

constexpr std::uint64_t kRate = 1'000'000;

// Bytes that come out of datagrams which `send` sends as long as it likes, and the most that may.
template <typename F>
void expect_at_most(std::uint64_t burst, const UniqueFd& receiver, F send) {
  const int room = 64 << 20;
  ::setsockopt(receiver.get(), SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
  const auto start = Clock::now();
  const std::uint64_t sent = send();
  char buffer[2048];
  std::uint64_t received = 0;
  const auto drain = [&] {
    for (ssize_t size = 0; (size = ::recv(receiver.get(), buffer, sizeof buffer, MSG_DONTWAIT)) > 0;)
      received += static_cast<std::uint64_t>(size);
  };
  drain();
  const std::chrono::duration<double> elapsed = Clock::now() - start;
  EXPECT_GT(received, 0U);
  EXPECT_LE(received, burst + static_cast<std::uint64_t>(elapsed.count() * kRate)) << "of " << sent;
}

std::uint64_t flood(const UniqueFd& sender, std::uint32_t address, unsigned datagrams) {
  const std::string text(1000, 'x');
  for (unsigned i = 0; i < datagrams; ++i) send_udp(sender, address, 9000, text);
  return std::uint64_t{datagrams} * text.size();
}

TEST(NetworkLimits, ASandboxSendsAndReceivesNoFasterThanItsBandwidth) {
  in_world([](World& world) {
    Slot slot = world.take();
    must(world.pool->limit_bandwidth(slot, {.receive = kRate, .send = kRate}));
    const std::uint64_t burst = queue_of(kRate).burst;
    const UniqueFd outside = udp_in(world.internet.get(), kServer, 9000);
    expect_at_most(burst, outside, [&] {
      const UniqueFd sender = udp_in(slot.netns.get(), INADDR_ANY, 0);
      ::fcntl(sender.get(), F_SETFL, O_NONBLOCK);
      return flood(sender, kServer, 20'000);
    });
    const UniqueFd inside = udp_in(slot.netns.get(), INADDR_ANY, 9000);
    expect_at_most(burst, inside, [&] {
      const UniqueFd sender = udp_in(world.host.get(), INADDR_ANY, 0);
      ::fcntl(sender.get(), F_SETFL, O_NONBLOCK);
      return flood(sender, world.config.address(slot.index), 20'000);
    });
  });
}

TEST(NetworkLimits, PacketsThatGoRoundTheLinksQueueMeetTheSameLimit) {
  in_world([](World& world) {
    Slot slot = world.take();
    must(world.pool->limit_bandwidth(slot, {.send = kRate}));
    {
      auto inside = must(kernel::NetlinkSocket::open_in(slot.netns.get(), NETLINK_ROUTE));
      kernel::NetlinkBatch batch;  // as if the sandbox's root could
      kernel::clear_send_rate(batch, must(kernel::find_link(inside, "eth0")).index);
      must(inside.run(batch));
    }
    const UniqueFd outside = udp_in(world.internet.get(), kServer, 9000);
    // The kernel's bucket holds a second and the burst.
    expect_at_most(kRate + meter_of(kRate).burst, outside,
                   [&] { return flood(udp_in(slot.netns.get(), INADDR_ANY, 0), kServer, 20'000); });
    EXPECT_EQ(world.elements("send_limits"), 1U);
  });
}

TEST(NetworkLimits, ARecycledSlotHasNoLimitOfBandwidth) {
  in_world([](World& world) {
    Slot slot = world.take();
    const unsigned index = slot.index;
    must(world.pool->limit_bandwidth(slot, {.receive = kRate, .send = kRate}));
    must(world.pool->limit_bandwidth(slot, {.receive = 2 * kRate, .send = 2 * kRate}));
    world.pool->give_back(std::move(slot), true);
    world.pool->wait_until_idle();
    EXPECT_EQ(world.elements("send_limits"), 0U);
    for (Slot again = world.take(); again.index != index; again = world.take()) {
    }
    auto here = must(kernel::NetlinkSocket::open(NETLINK_ROUTE));
    kernel::NetlinkBatch batch;
    kernel::clear_send_rate(batch, must(kernel::find_link(here, world.config.interface(index))).index);
    EXPECT_FALSE(here.run(batch)) << "there is none";
  });
}

TEST(NetworkLimits, ATableThatWasDeletedComesBackWithItsLimits) {
  in_world([](World& world) {
    Slot slot = world.take();
    must(world.pool->limit_bandwidth(slot, {.send = kRate}));
    auto netfilter = must(kernel::NetlinkSocket::open(NETLINK_NETFILTER));
    kernel::NftBatch gone(world.config.table);
    gone.delete_table();
    must(gone.commit(netfilter));
    must(world.firewall->refuse(slot.index));
    EXPECT_EQ(world.elements("send_limits"), 1U);
    EXPECT_GE(world.elements("connections"), 1U);
    must(world.firewall->expel(slot.index));
    EXPECT_EQ(world.elements("send_limits"), 0U);
  });
}

}  // namespace
}  // namespace osb::sandboxd
