#include "kernel/netlink.h"

#include <array>
#include <functional>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel/netlink_conntrack.h"
#include "kernel/netlink_route.h"
#include "kernel/netlink_sockets.h"
#include "kernel/nftables.h"

namespace osb::kernel {
namespace {

using ::testing::HasSubstr;

constexpr std::uint32_t kForwardHook = 2;  // NF_INET_FORWARD
constexpr std::uint32_t kAddress = 0x0a000002;

// A thread in a network namespace of its own, with sockets in it.
void in_own_network(const std::function<void(NetlinkSocket& route, NetlinkSocket& netfilter)>& body) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: makes network namespaces";
  std::thread([&] {
    ASSERT_EQ(::unshare(CLONE_NEWNET), 0);
    auto route = NetlinkSocket::open(NETLINK_ROUTE);
    auto netfilter = NetlinkSocket::open(NETLINK_NETFILTER);
    ASSERT_TRUE(route && netfilter);
    body(*route, *netfilter);
  }).join();
}

UniqueFd other_network() {
  UniqueFd made;
  std::thread([&] {
    if (::unshare(CLONE_NEWNET) == 0) made.reset(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
  }).join();
  return made;
}

Result<void> make_pair(NetlinkSocket& route, const std::string& name, int peer_netns) {
  NetlinkBatch batch;
  add_veth(batch, {.name = name,
                   .mac = {2, 0, 0, 0, 0, 1},
                   .peer_name = "peer",
                   .peer_mac = {2, 0, 0, 0, 0, 2},
                   .peer_netns = peer_netns,
                   .mtu = 1300});
  return route.run(batch);
}

TEST(Netlink, AVethPairHasOneEndInEachNamespaceAndDiesWithTheOther) {
  in_own_network([](NetlinkSocket& route, NetlinkSocket&) {
    UniqueFd other = other_network();
    ASSERT_TRUE(make_pair(route, "left", other.get()));
    const auto left = find_link(route, "left");
    ASSERT_TRUE(left);
    EXPECT_EQ(left->mtu, 1300U);
    EXPECT_FALSE(left->running);
    const auto id = namespace_id(route, other.get());
    ASSERT_TRUE(id && *id);
    EXPECT_EQ(left->peer_netns_id, *id);
    {
      auto there = NetlinkSocket::open_in(other.get(), NETLINK_ROUTE);
      ASSERT_TRUE(there);
      EXPECT_TRUE(find_link(*there, "peer"));
      EXPECT_FALSE(find_link(*there, "left"));
    }
    auto monitor = LinkMonitor::open();
    ASSERT_TRUE(monitor);
    other.reset();
    const auto gone = monitor->wait(
        [&]() -> Result<bool> {
          const auto links = list_links(route, "le");
          if (!links) return Failure(links.error());
          return links->empty();
        },
        std::chrono::seconds(30));
    EXPECT_TRUE(gone) << gone.error().message;
    EXPECT_EQ(find_link(route, "left").error().code, Code::NotFound);
  });
}

TEST(Netlink, TheFirstFailureOfABatchIsNamedAndTheRestIsDone) {
  in_own_network([](NetlinkSocket& route, NetlinkSocket&) {
    const auto lo = find_link(route, "lo");
    ASSERT_TRUE(lo);
    NetlinkBatch batch;
    add_address(batch, 4711, kAddress, 32, RT_SCOPE_UNIVERSE);
    delete_link(batch, 4712);
    change_link(batch, lo->index, {.up = true});
    const auto failed = route.run(batch);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().sys_errno, ENODEV);
    EXPECT_THAT(failed.error().message, HasSubstr("set address 10.0.0.2: "));
    NetlinkBatch second;  // needs lo to be up; answers to the first batch are not taken for its own
    add_route(second, {.destination = 0x0b000000, .prefix_length = 8, .index = lo->index});
    const auto done = route.run(second);
    EXPECT_TRUE(done) << done.error().message;
  });
}

TEST(Netlink, TheKernelsExplanationIsPartOfTheMessage) {
  in_own_network([](NetlinkSocket& route, NetlinkSocket&) {
    const auto lo = find_link(route, "lo");
    ASSERT_TRUE(lo);
    NetlinkBatch batch;
    change_link(batch, lo->index, {.up = true});
    add_route(batch, {.index = lo->index, .gateway = 0x0a000001});
    const auto failed = route.run(batch);
    ASSERT_FALSE(failed);
    EXPECT_THAT(failed.error().message, HasSubstr("add route 0.0.0.0/0: "));
    EXPECT_THAT(failed.error().message, ::testing::EndsWith("(Nexthop has invalid gateway)"));
  });
}

TEST(Netlink, WaitingForNewsEnds) {
  in_own_network([](NetlinkSocket&, NetlinkSocket&) {
    auto monitor = LinkMonitor::open();
    ASSERT_TRUE(monitor);
    const auto late = monitor->wait([]() -> Result<bool> { return false; }, std::chrono::milliseconds(20));
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().code, Code::Timeout);
  });
}

TEST(Netlink, SocketsOfANamespaceAreCountedAndEnded) {
  in_own_network([](NetlinkSocket& route, NetlinkSocket&) {
    NetlinkBatch up;
    change_link(up, find_link(route, "lo")->index, {.up = true});
    ASSERT_TRUE(route.run(up));
    const UniqueFd here(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
    EXPECT_TRUE(count_sockets(here.get())->none());
    const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::listen(listener.get(), 1), 0);
    EXPECT_EQ(count_sockets(here.get())->tcp, 1U);
    ASSERT_TRUE(end_tcp_sockets(here.get()));
    EXPECT_TRUE(count_sockets(here.get())->none());
  });
}

TEST(Netlink, ConnectionsToAnAddressEndAndOthersGoOn) {
  in_own_network([](NetlinkSocket& route, NetlinkSocket&) {
    NetlinkBatch up;
    change_link(up, find_link(route, "lo")->index, {.up = true});
    ASSERT_TRUE(route.run(up));
    const auto address_of = [](std::uint32_t host, in_port_t port) {
      sockaddr_in out{};
      out.sin_family = AF_INET;
      out.sin_addr.s_addr = htonl(host);
      out.sin_port = port;
      return out;
    };
    const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::listen(listener.get(), 4), 0);
    sockaddr_in bound{};
    socklen_t size = sizeof bound;
    ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&bound), &size), 0);
    const auto connect_to = [&](std::uint32_t host) {
      UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      const sockaddr_in there = address_of(host, bound.sin_port);
      EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&there), sizeof there), 0);
      return fd;
    };
    const std::uint32_t dead = INADDR_LOOPBACK + 1;
    const UniqueFd to_dead = connect_to(dead);
    const UniqueFd to_other = connect_to(INADDR_LOOPBACK);
    ASSERT_TRUE(end_tcp_connections_to(dead));
    char byte;
    EXPECT_EQ(::recv(to_dead.get(), &byte, 1, MSG_DONTWAIT), -1);
    EXPECT_EQ(errno, ECONNABORTED);
    EXPECT_EQ(::recv(to_other.get(), &byte, 1, MSG_DONTWAIT), -1);
    EXPECT_EQ(errno, EAGAIN);
    EXPECT_TRUE(end_tcp_connections_to(dead)) << "none left";
  });
}

TEST(Nftables, ATransactionHappensAsAWholeOrNotAtAll) {
  in_own_network([](NetlinkSocket&, NetlinkSocket& netfilter) {
    NftBatch broken("walls");
    broken.add_table();
    broken.add_chain({.name = "forward", .hook = kForwardHook});
    broken.add_rule("forward", std::move(NftRule().input_interface("a").drop()));
    broken.add_rule("no_such_chain", std::move(NftRule().drop()));
    const auto failed = broken.commit(netfilter);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code, Code::NotFound);
    EXPECT_THAT(failed.error().message, HasSubstr("table walls: add rule to no_such_chain: "));
    EXPECT_TRUE(list_chains(netfilter)->empty());

    NftBatch whole("walls");
    whole.add_table();
    whole.add_chain({.name = "forward", .hook = kForwardHook, .drop_by_default = true});
    ASSERT_TRUE(whole.commit(netfilter));
    const auto chains = list_chains(netfilter);
    ASSERT_TRUE(chains);
    ASSERT_EQ(chains->size(), 1U);
    EXPECT_EQ(chains->front().table, "walls");
    EXPECT_EQ(chains->front().hook, kForwardHook);
    EXPECT_TRUE(chains->front().drops_by_default);
  });
}

TEST(Nftables, ThousandsOfElementsGoInAndOutAtOnce) {
  in_own_network([](NetlinkSocket&, NetlinkSocket& netfilter) {
    std::vector<NftElement> elements;
    for (unsigned i = 0; i < 5000; ++i) {
      NftElement element;
      element.key.interface("osb-" + std::to_string(i)).address(kAddress + i);
      elements.push_back(std::move(element));
    }
    NftBatch add("walls");
    add.add_table();
    add.add_set("members", {NftField::InputInterface, NftField::Source});
    add.add_elements("members", elements);
    const auto added = add.commit(netfilter);
    ASSERT_TRUE(added) << added.error().message;
    const auto listed = list_elements(netfilter, "walls", "members");
    ASSERT_TRUE(listed);
    EXPECT_EQ(listed->size(), 5000U);
    EXPECT_THAT(*listed, ::testing::Contains(elements[4711].key.bytes()));
    NftBatch remove("walls");
    remove.delete_elements("members", elements);
    ASSERT_TRUE(remove.commit(netfilter));
    EXPECT_TRUE(list_elements(netfilter, "walls", "members")->empty());
    NftBatch again("walls");
    again.delete_elements("members", {elements[0]});
    EXPECT_EQ(again.commit(netfilter).error().code, Code::NotFound);
    EXPECT_EQ(list_elements(netfilter, "walls", "nobody").error().code, Code::NotFound);
  });
}

TEST(Conntrack, AnAddressWithoutConnectionsHasNothingToForget) {
  in_own_network([](NetlinkSocket&, NetlinkSocket& netfilter) {
    const auto count = forget_connections(netfilter, [](std::uint32_t address) { return address == kAddress; });
    ASSERT_TRUE(count) << count.error().message;
    EXPECT_EQ(*count, 0U);
  });
}

}  // namespace
}  // namespace osb::kernel
