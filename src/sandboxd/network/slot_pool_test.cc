#include "sandboxd/network/slot_pool.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <set>
#include <sys/wait.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel/netlink_conntrack.h"
#include "kernel/netlink_sockets.h"
#include "sandboxd/network/network_fixture.h"
#include "sys/text_file.h"

namespace osb::sandboxd {
namespace {

using namespace osb::sandboxd::testing;
using ::testing::HasSubstr;

// A process that does nothing inside a slot.
class Inhabitant {
 public:
  explicit Inhabitant(const Slot& slot) {
    auto ready = must(sys::make_pipe());
    pid_ = ::fork();
    if (pid_ == 0) {
      const bool in = ::setns(slot.netns.get(), CLONE_NEWNET) == 0 && ::setns(slot.userns.get(), CLONE_NEWUSER) == 0;
      if (!in || ::write(ready.write.get(), "x", 1) != 1) ::_exit(1);
      for (;;) ::pause();
    }
    ready.write.reset();
    char byte = 0;
    if (::read(ready.read.get(), &byte, 1) != 1) throw std::runtime_error("inhabitant did not get in");
  }
  ~Inhabitant() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
};

std::size_t open_descriptors() {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

TEST(SlotPool, ASlotHasTheAddressInterfaceAndIdsOfItsIndex) {
  in_world([](World& world) {
    const Slot slot = world.take();
    EXPECT_EQ(slot.address, format_ipv4(world.config.address(slot.index)));
    EXPECT_EQ(slot.interface, "osb-" + std::to_string(slot.index));
    EXPECT_EQ(slot.id_base, 1048576 + 65536 * slot.index);
    const Inhabitant inside(slot);
    const std::string map = must(sys::read_text("/proc/" + std::to_string(inside.pid()) + "/uid_map"));
    EXPECT_THAT(map, HasSubstr(std::to_string(slot.id_base)));
    auto route = must(kernel::NetlinkSocket::open_in(slot.netns.get(), NETLINK_ROUTE));
    EXPECT_EQ(must(kernel::find_link(route, "eth0")).mtu, 1400U) << "of the default route's interface";
  });
}

TEST(SlotPool, ReadySlotsAreRefilledInTheBackground) {
  in_world([](World& world) {
    world.pool->wait_until_idle();
    EXPECT_EQ(world.pool->counts().ready, 2U);
    const Slot first = world.take();
    const Slot second = world.take();
    const Slot third = world.take();
    EXPECT_EQ((std::set{first.index, second.index, third.index}).size(), 3U);
    world.pool->wait_until_idle();
    EXPECT_EQ(world.pool->counts().ready, 2U);
    EXPECT_EQ(world.pool->counts().taken, 3U);
  });
}

TEST(SlotPool, ASlotWithoutNetworkHasNothingButLoopback) {
  in_world([](World& world) {
    const Slot slot = world.take(NetworkMode::None);
    EXPECT_EQ(slot.address, "");
    auto route = must(kernel::NetlinkSocket::open_in(slot.netns.get(), NETLINK_ROUTE));
    const auto links = must(kernel::list_links(route, ""));
    for (const kernel::Link& link : links) EXPECT_TRUE(link.name == "lo" || !link.running) << link.name;
    const UniqueFd listener = listen_in(slot.netns.get(), INADDR_LOOPBACK, 80);
    EXPECT_TRUE(connect_from(slot.netns.get(), INADDR_LOOPBACK, 80, kLong));
    EXPECT_FALSE(connect_from(slot.netns.get(), kServer, 80, kShort));
  });
}

TEST(SlotPool, IPv6IsOffExceptOnLoopback) {
  in_world([](World& world) {
    const Slot slot = world.take();
    const std::string inside = must(kernel::in_network_namespace(
        slot.netns.get(), [] { return sys::read_text("/proc/thread-self/net/if_inet6"); }));
    EXPECT_THAT(inside, ::testing::Not(HasSubstr("eth0")));
    EXPECT_THAT(inside, HasSubstr(" lo"));
    const std::string outside = must(sys::read_text("/proc/thread-self/net/if_inet6"));
    EXPECT_THAT(outside, ::testing::Not(HasSubstr("osb-")));
  });
}

TEST(SlotPool, ARecycledSlotKeepsNeitherSocketsNorConnections) {
  in_own_network([] {
    World world;
    world.config.ready_slots = 1;
    world.config.recycle_batch = 1;
    world.start();
    Slot slot = world.take();
    const unsigned index = slot.index;
    {
      const UniqueFd server = listen_in(world.internet.get(), kServer, 80);
      const UniqueFd gone = connect_from(slot.netns.get(), kServer, 80, kLong);
      const Accepted there = accept_from(server);
      ASSERT_TRUE(gone && there.fd);
      // Closed on both sides, ours first: TIME_WAIT is left inside.
      ::shutdown(gone.get(), SHUT_WR);
      ASSERT_TRUE(readable(there.fd, kLong));
    }
    EXPECT_FALSE(must(kernel::count_sockets(slot.netns.get())).none()) << "the test left nothing to clean up";
    EXPECT_NE(must(sys::read_text("/proc/sys/net/netfilter/nf_conntrack_count")), "0\n") << "nor to forget";
    world.pool->give_back(std::move(slot), true);
    world.pool->wait_until_idle();
    for (int i = 0; i < 2; ++i) {  // one was ready before it came back
      Slot again = world.take();
      if (again.index != index) continue;
      EXPECT_TRUE(must(kernel::count_sockets(again.netns.get())).none());
      auto netfilter = must(kernel::NetlinkSocket::open(NETLINK_NETFILTER));
      EXPECT_EQ(must(kernel::forget_connections(
                    netfilter, [&](std::uint32_t each) { return each == world.config.address(index); })),
                0U);
      const UniqueFd server = listen_in(world.internet.get(), kServer, 81);
      EXPECT_TRUE(connect_from(again.netns.get(), kServer, 81, kLong)) << "still works";
      return;
    }
    FAIL() << "the slot was not recycled";
  });
}

TEST(SlotPool, SlotsWithTrafficWaitToBeCleanedTogether) {
  in_own_network([] {
    World world;
    world.config.ready_slots = 1;
    world.config.recycle_batch = 3;
    world.config.forget_after = std::chrono::hours(1);
    world.start();
    const UniqueFd server = udp_in(world.internet.get(), kServer, 9000);
    std::vector<Slot> slots;
    for (int i = 0; i < 3; ++i) {
      slots.push_back(world.take());
      send_udp(udp_in(slots.back().netns.get(), INADDR_ANY, 0), kServer, 9000, "x");
      EXPECT_EQ(receive_udp(server), "x");
    }
    for (int i = 0; i < 2; ++i) world.pool->give_back(std::move(slots[static_cast<std::size_t>(i)]), true);
    world.pool->wait_until_idle();
    EXPECT_EQ(world.pool->counts().draining, 2U);
    world.pool->give_back(std::move(slots[2]), true);
    world.pool->wait_until_idle();
    EXPECT_EQ(world.pool->counts().draining, 0U);
    EXPECT_EQ(world.pool->counts().ready, 4U);
    EXPECT_EQ(must(sys::read_text("/proc/sys/net/netfilter/nf_conntrack_count")), "0\n");
  });
}

TEST(SlotPool, ASlotWithASocketHeldOutsideIsDropped) {
  in_world([](World& world) {
    Slot slot = world.take();
    const std::string interface = slot.interface;
    UniqueFd held = udp_in(slot.netns.get(), INADDR_ANY, 53);
    world.pool->give_back(std::move(slot), true);
    world.pool->wait_until_idle();
    EXPECT_EQ(world.pool->counts().draining, 1U);
    EXPECT_THAT(world.our_links(), ::testing::Contains(interface)) << "the socket keeps the namespace";
    EXPECT_EQ(world.elements("members"), 2U) << "but its packets go nowhere";
    held.reset();
    world.wait_for_links(2);
    EXPECT_THAT(world.our_links(), ::testing::Not(::testing::Contains(interface)));
  });
}

TEST(SlotPool, NoAddressLeftIsSaidAndAddressesComeBack) {
  in_own_network([] {
    NetworkConfig config;
    config.subnet = must(parse_subnet("10.91.7.0/29"));
    config.ready_slots = 1;
    World world(config);
    world.start();
    std::vector<Slot> slots;
    for (int i = 0; i < 5; ++i) slots.push_back(world.take());
    const auto refused = world.pool->take(NetworkMode::Bridge);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::Unavailable);
    EXPECT_THAT(refused.error().message, HasSubstr("no address left: all 5 of 10.91.7.0/29"));

    const unsigned index = slots[2].index;
    world.pool->give_back(std::move(slots[2]), false);
    const Slot again = world.take();  // waits until the kernel has torn the old one down
    EXPECT_EQ(again.index, index);
    const UniqueFd server = listen_in(world.internet.get(), kServer, 80);
    EXPECT_TRUE(connect_from(again.netns.get(), kServer, 80, kLong));
  });
}

TEST(SlotPool, AfterARestartSlotsAreAdoptedAndConnectionsGoOn) {
  in_world([](World& world) {
    unsigned index = 0;
    unsigned none_index = 0;
    std::unique_ptr<Inhabitant> inside;
    std::unique_ptr<Inhabitant> inside_none;
    UniqueFd client;
    {
      Slot slot = world.take();
      index = slot.index;
      inside = std::make_unique<Inhabitant>(slot);
      const Slot none = world.take(NetworkMode::None);
      none_index = none.index;
      inside_none = std::make_unique<Inhabitant>(none);
      const UniqueFd server = listen_in(world.internet.get(), kServer, 80);
      client = connect_from(slot.netns.get(), kServer, 80, kLong);
      ASSERT_TRUE(client);
      const Accepted there = accept_from(server);
      ASSERT_TRUE(passes(client, there.fd));
      world.restart();  // the old daemon's descriptors go, too
      slot = Slot();

      EXPECT_FALSE(world.pool->adopt(index + 1, NetworkMode::Bridge, inside->pid())) << "another id range";
      EXPECT_FALSE(world.pool->adopt(index, NetworkMode::Bridge, ::getpid())) << "not a sandbox at all";
      for (const auto& [wrong, pid] : {std::pair(index + 1, inside->pid()), std::pair(index, ::getpid())}) {
        EXPECT_FALSE(world.pool->adopt(wrong, NetworkMode::Bridge, pid, SlotHolder::Runtime)) << "another interface";
      }
      EXPECT_FALSE(world.pool->adopt(none_index, NetworkMode::None, inside_none->pid(), SlotHolder::Runtime));
      Slot adopted = must(world.pool->adopt(index, NetworkMode::Bridge, inside->pid()));
      EXPECT_FALSE(world.pool->adopt(index, NetworkMode::Bridge, inside->pid())) << "twice";
      EXPECT_EQ(adopted.address, format_ipv4(world.config.address(index)));
      const Slot adopted_none = must(world.pool->adopt(none_index, NetworkMode::None, inside_none->pid()));
      must(world.firewall->install());
      must(world.pool->start());
      EXPECT_TRUE(passes(client, there.fd));
      EXPECT_TRUE(passes(there.fd, client));
      for (int i = 0; i < 5; ++i) {
        const Slot other = world.take();
        EXPECT_NE(other.index, index);
        EXPECT_NE(other.index, none_index);
      }
      EXPECT_TRUE(connect_from(adopted.netns.get(), kServer, 80, kLong));
    }
  });
}

TEST(SlotPool, OneInTheHostsNetworkIsAdoptedByItsIdsAndNotUsedAgain) {
  in_own_network([] {
    NetworkConfig config;
    config.ready_slots = 0;
    World world(config);
    world.start();
    Slot slot = world.take(NetworkMode::None);
    const unsigned index = slot.index;
    slot.netns.reset(::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
    const Inhabitant inside(slot);
    world.restart();
    slot = Slot();
    const auto adopt = [&](unsigned which, NetworkMode mode, pid_t pid) {
      return world.pool->adopt(which, mode, pid, SlotHolder::InHostNetwork);
    };
    EXPECT_FALSE(adopt(index + 1, NetworkMode::None, inside.pid())) << "another id range";
    EXPECT_FALSE(adopt(index, NetworkMode::Bridge, inside.pid()));
    EXPECT_FALSE(adopt(index, NetworkMode::None, ::getpid())) << "not a sandbox at all";
    Slot adopted = must(adopt(index, NetworkMode::None, inside.pid()));
    EXPECT_FALSE(adopted.netns);
    EXPECT_TRUE(adopted.userns);
    must(world.firewall->install());
    must(world.pool->start());
    world.pool->give_back(std::move(adopted), true);
    world.pool->wait_until_idle();
    EXPECT_EQ(world.pool->counts().ready, 0U);
    EXPECT_EQ(world.pool->counts().taken, 0U);
    EXPECT_TRUE(world.take(NetworkMode::None).netns);
  });
}

TEST(SlotPool, AnAdoptedIndexThatComesBackIsInOneHandOnly) {
  for (const bool before_start : {false, true}) {
    in_own_network([&] {
      NetworkConfig config;
      config.subnet = must(parse_subnet("10.91.7.0/29"));
      config.ready_slots = 0;
      World world(config);
      world.start();
      const Slot first = world.take(NetworkMode::None);
      const Slot second = world.take(NetworkMode::None);
      const Inhabitant inside(second);
      world.restart();
      Slot adopted = must(world.pool->adopt(second.index, NetworkMode::None, inside.pid()));
      const auto give_back = [&] { world.pool->give_back(std::move(adopted), true); };
      if (before_start) give_back();
      must(world.firewall->install());
      must(world.pool->start());
      if (!before_start) give_back();
      world.pool->wait_until_idle();
      std::vector<Slot> slots;
      std::set<unsigned> indices;
      for (int i = 0; i < 5; ++i) indices.insert(slots.emplace_back(world.take(NetworkMode::None)).index);
      EXPECT_EQ(indices.size(), 5U);
      EXPECT_FALSE(world.pool->take(NetworkMode::None));
    });
  }
}

TEST(SlotPool, SpareSlotsOfOneKindMakeRoomForTheOther) {
  in_own_network([] {
    NetworkConfig config;
    config.subnet = must(parse_subnet("10.91.7.0/29"));
    config.ready_slots = 2;
    World world(config);
    world.start();
    for (const NetworkMode mode : {NetworkMode::None, NetworkMode::Bridge, NetworkMode::None}) {
      std::vector<Slot> slots;
      for (int i = 0; i < 5; ++i) slots.push_back(world.take(mode));
      for (Slot& slot : slots) world.pool->give_back(std::move(slot), true);
      world.pool->wait_until_idle();
    }
  });
}

TEST(SlotPool, AHostWithoutBridgesSaysWhyAndHasSlotsWithoutNetwork) {
  in_own_network([] {
    World world;
    world.restart();  // without rules
    must(world.pool->start("nftables: missing"));
    const auto refused = world.pool->take(NetworkMode::Bridge);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::Unsupported);
    EXPECT_THAT(refused.error().message, HasSubstr("nftables: missing"));
    EXPECT_TRUE(world.pool->take(NetworkMode::None));
    world.pool->wait_until_idle();
    EXPECT_EQ(world.pool->counts().ready, 0U);
  });
}

TEST(SlotPool, AProcessOfAnotherSlotIsNotAdopted) {
  in_world([](World& world) {
    const Slot first = world.take();
    const Slot second = world.take();
    // The ids of the first with the network of the second.
    Slot mixed;
    mixed.userns.reset(::dup(first.userns.get()));
    mixed.netns.reset(::dup(second.netns.get()));
    const Inhabitant inside(mixed);
    world.restart();
    const auto adopted = world.pool->adopt(first.index, NetworkMode::Bridge, inside.pid());
    ASSERT_FALSE(adopted);
    EXPECT_THAT(adopted.error().message, HasSubstr("its network namespace is not its own"));
  });
}

TEST(SlotPool, FiveHundredCyclesLeaveNothingBehind) {
  in_world([](World& world) {
    world.pool->wait_until_idle();
    const std::size_t descriptors = open_descriptors();
    for (int i = 0; i < 250; ++i) {
      Slot one = world.take();
      Slot other = world.take(i % 10 == 0 ? NetworkMode::None : NetworkMode::Bridge);
      EXPECT_NE(one.index, other.index);
      world.pool->give_back(std::move(one), true);
      world.pool->give_back(std::move(other), i % 5 != 0);
    }
    world.pool->wait_until_idle();
    const auto counts = world.pool->counts();
    EXPECT_EQ(counts.taken, 0U);
    EXPECT_EQ(open_descriptors(), descriptors + 2 * (counts.ready - 2)) << "two for each ready slot";
    world.pool.reset();
    world.wait_for_links(0);
    EXPECT_EQ(world.elements("members"), 0U);
    EXPECT_EQ(world.elements("published"), 0U);
  });
}

TEST(SlotPool, ManyThreadsNeverGetTheSameSlot) {
  in_world([](World& world) {
    std::mutex mutex;
    std::set<unsigned> held;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 25; ++i) {
          auto slot = world.pool->take(NetworkMode::Bridge);
          ASSERT_TRUE(slot) << slot.error().message;
          {
            const std::lock_guard lock(mutex);
            EXPECT_TRUE(held.insert(slot->index).second);
          }
          {
            const std::lock_guard lock(mutex);
            held.erase(slot->index);
          }
          world.pool->give_back(std::move(*slot), (i + t) % 3 != 0);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(world.pool->counts().taken, 0U);
  });
}

}  // namespace
}  // namespace osb::sandboxd
