#include <cerrno>
#include <vector>

#include <gtest/gtest.h>

#include "kernel/nftables.h"
#include "sandboxd/network/firewall.h"
#include "sandboxd/network/network_fixture.h"

namespace osb::sandboxd {
namespace {

using namespace osb::sandboxd::testing;

constexpr std::uint16_t kPort = 44772;

int take_error(const UniqueFd& fd) {
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

// The result of a connect that has begun: 0, an errno, or ETIMEDOUT when there is no answer at all.
int outcome_of(const UniqueFd& fd) {
  pollfd wanted{.fd = fd.get(), .events = POLLOUT, .revents = 0};
  if (::poll(&wanted, 1, static_cast<int>(kLong.count())) != 1) return ETIMEDOUT;
  return take_error(fd);
}

int connect_error(int netns, std::uint32_t address, std::uint16_t port) {
  const UniqueFd fd = socket_in(netns, SOCK_STREAM | SOCK_NONBLOCK);
  const sockaddr_in where = ip_address(address, port);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0) return 0;
  return errno == EINPROGRESS ? outcome_of(fd) : errno;
}

// The error that one datagram brings back (EPERM: at once, of the host itself); 0 if none comes.
int datagram_error(int netns, std::uint32_t address, std::uint16_t port) {
  const UniqueFd fd = socket_in(netns, SOCK_DGRAM);
  const sockaddr_in where = ip_address(address, port);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&where), sizeof where) < 0) return errno;
  if (::send(fd.get(), "x", 1, 0) < 0) return errno;
  return readable(fd, kLong) ? take_error(fd) : 0;
}

// A slot with a connection from the host.
struct Connected {
  Slot slot;
  std::uint32_t address;
  UniqueFd listener, client;
  Accepted inside;
};

Connected connected(World& world) {
  Slot slot = world.take();
  const std::uint32_t address = world.config.address(slot.index);
  UniqueFd listener = listen_in(slot.netns.get(), INADDR_ANY, kPort);
  UniqueFd client = connect_from(world.host.get(), address, kPort, kLong);
  Accepted inside = accept_from(listener);
  return {std::move(slot), address, std::move(listener), std::move(client), std::move(inside)};
}

TEST(FirewallRefusal, NewConnectionsAreRefusedAndOpenOnesGoOn) {
  in_world([](World& world) {
    const auto [slot, address, listener, client, inside] = connected(world);
    ASSERT_TRUE(inside.fd);

    must(world.firewall->refuse(slot.index));
    must(world.firewall->refuse(slot.index));
    EXPECT_EQ(connect_error(world.host.get(), address, kPort), ECONNREFUSED);
    EXPECT_NE(datagram_error(world.host.get(), address, 53), 0);
    EXPECT_FALSE(readable(listener, std::chrono::milliseconds(0)));
    EXPECT_TRUE(passes(client, inside.fd));
    EXPECT_TRUE(passes(inside.fd, client));

    must(world.firewall->accept(slot.index));
    EXPECT_EQ(connect_error(world.host.get(), address, kPort), 0);
    EXPECT_EQ(world.elements("refused"), 0U);
  });
}

TEST(FirewallRefusal, PublishedPortsOfARefusedSlotAreRefused) {
  in_world([](World& world) {
    const Slot slot = world.take();
    const UniqueFd listener = listen_in(slot.netns.get(), INADDR_ANY, 80);
    const std::uint16_t port =
        must(world.firewall->publish({.host_port = 8080, .host_only = false, .slot = slot.index, .port = 80}));
    ASSERT_EQ(port, 8080);
    EXPECT_EQ(connect_error(world.host.get(), INADDR_LOOPBACK, port), 0);
    EXPECT_EQ(connect_error(world.internet.get(), kHostAddress, port), 0);
    must(world.firewall->refuse(slot.index));
    EXPECT_EQ(connect_error(world.host.get(), INADDR_LOOPBACK, port), ECONNREFUSED);
    EXPECT_EQ(connect_error(world.host.get(), kHostAddress, port), ECONNREFUSED);
    EXPECT_EQ(connect_error(world.internet.get(), kHostAddress, port), ECONNREFUSED);
  });
}

TEST(FirewallRefusal, ConnectionsToAnExpelledSlotAreReset) {
  in_world([](World& world) {
    const auto [slot, address, listener, client, inside] = connected(world);
    ASSERT_TRUE(inside.fd);
    must(world.firewall->refuse(slot.index));
    must(world.firewall->expel(slot.index));
    EXPECT_EQ(world.elements("refused"), 0U);
    // The namespace is still there and listens; its interface is not a member's any more.
    EXPECT_EQ(connect_error(world.host.get(), address, kPort), ECONNREFUSED);
    EXPECT_NE(datagram_error(world.host.get(), address, 53), 0);
    ASSERT_EQ(::send(client.get(), "x", 1, MSG_NOSIGNAL), 1);
    ASSERT_TRUE(readable(client, kLong));
    char byte = 0;
    EXPECT_LE(::recv(client.get(), &byte, 1, 0), 0);
    must(world.firewall->admit(slot.index));
    EXPECT_EQ(connect_error(world.host.get(), address, kPort), 0);
  });
}

TEST(FirewallRefusal, ATableThatWasDeletedComesBackWithItsRefusals) {
  in_world([](World& world) {
    const Slot slot = world.take();
    const Slot other = world.take();
    const UniqueFd listener = listen_in(slot.netns.get(), INADDR_ANY, kPort);
    must(world.firewall->refuse(slot.index));
    auto netfilter = must(kernel::NetlinkSocket::open(NETLINK_NETFILTER));
    kernel::NftBatch gone(world.config.table);
    gone.delete_table();
    must(gone.commit(netfilter));
    must(world.firewall->refuse(other.index));
    EXPECT_EQ(connect_error(world.host.get(), world.config.address(slot.index), kPort), ECONNREFUSED);
    EXPECT_EQ(world.elements("refused"), 2U);
  });
}

TEST(FirewallRefusal, ASlotThatCameBackIsRefusedUntilItIsReadyAgain) {
  in_world([](World& world) {
    for (const bool recyclable : {true, false}) {
      Slot slot = world.take();
      const std::uint32_t address = world.config.address(slot.index);
      {
        // Traffic keeps the slot from being ready at once.
        const UniqueFd listener = listen_in(slot.netns.get(), INADDR_ANY, kPort);
        EXPECT_EQ(connect_error(world.host.get(), address, kPort), 0);
      }
      world.pool->give_back(std::move(slot), recyclable);
      const int error = connect_error(world.host.get(), address, kPort);
      EXPECT_EQ(error, ECONNREFUSED);
      world.pool->wait_until_idle();
      EXPECT_EQ(connect_error(world.host.get(), address, kPort), ECONNREFUSED);
    }
  });
}

TEST(FirewallRefusal, AnAddressThatNoSandboxEverHadIsRefused) {
  in_world([](World& world) {
    EXPECT_EQ(connect_error(world.host.get(), world.config.address(200), 80), ECONNREFUSED);
    EXPECT_NE(datagram_error(world.host.get(), world.config.address(200), 53), 0);
  });
}

TEST(FirewallRefusal, AConnectWhoseFirstPacketWasLostIsRefusedAfterTheSlotIsGone) {
  in_world([](World& world) {
    Slot slot = world.take();
    // A queue for one connection: the kernel drops the first packets of the others.
    UniqueFd listener = socket_in(slot.netns.get(), SOCK_STREAM);
    bind_to(listener, INADDR_ANY, kPort);
    ASSERT_EQ(::listen(listener.get(), 0), 0);
    const sockaddr_in where = ip_address(world.config.address(slot.index), kPort);
    std::vector<UniqueFd> clients;
    for (int i = 0; i < 8; ++i) {
      clients.push_back(socket_in(world.host.get(), SOCK_STREAM | SOCK_NONBLOCK));
      (void)::connect(clients.back().get(), reinterpret_cast<const sockaddr*>(&where), sizeof where);
    }
    listener.reset();  // it would keep the namespace, and with it the interface
    world.pool->give_back(std::move(slot), false);
    world.pool->wait_until_idle();
    int refused = 0;
    for (const UniqueFd& client : clients) {
      const int outcome = outcome_of(client);
      // The connection in the queue is reset with its listener.
      EXPECT_TRUE(outcome == 0 || outcome == ECONNRESET || outcome == ECONNREFUSED) << outcome;
      refused += outcome == ECONNREFUSED;
    }
    EXPECT_GT(refused, 0);
  });
}

}  // namespace
}  // namespace osb::sandboxd
