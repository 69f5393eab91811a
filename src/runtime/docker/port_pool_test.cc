#include "runtime/docker/port_pool.h"

#include <set>
#include <sys/socket.h>

#include <gtest/gtest.h>

#include "http/socket_address.h"

namespace osb::runtime {
namespace {

// A listening socket on the port, or nothing.
UniqueFd listen_on(std::uint16_t port, bool reuse) {
  const auto address = http::to_sockaddr(http::Address::tcp("127.0.0.1", port));
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = reuse ? 1 : 0;
  if (::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
      ::bind(socket.get(), address->get(), address->length) < 0 || ::listen(socket.get(), 1) < 0) {
    return UniqueFd();
  }
  return socket;
}

TEST(PortPool, KeepsOthersAwayAndLetsTheEngineIn) {
  PortPool pool("127.0.0.1", true);
  const auto port = pool.take();
  ASSERT_TRUE(port) << port.error().message;
  EXPECT_LT(listen_on(*port, false).get(), 0);
  EXPECT_GE(listen_on(*port, true).get(), 0);  // engines ask for an address that was in use
}

TEST(PortPool, GivesEachPortOnce) {
  PortPool pool("127.0.0.1", true);
  std::set<std::uint16_t> taken;
  for (int i = 0; i < 200; ++i) {
    const auto port = pool.take();
    ASSERT_TRUE(port) << port.error().message;
    EXPECT_GE(*port, 40000);
    EXPECT_LE(*port, 60000);
    EXPECT_TRUE(taken.insert(*port).second);
    pool.settle(*port);
  }
}

TEST(PortPool, GivesEveryFreePortOfASmallRange) {
  PortPool pool("127.0.0.1", false, {1024, 1123});
  std::set<std::uint16_t> taken;
  for (int i = 0; i < 100; ++i) {
    const auto port = pool.take();
    ASSERT_TRUE(port) << port.error().message;
    EXPECT_TRUE(taken.insert(*port).second);
  }
  EXPECT_EQ(*taken.begin(), 1024);
  EXPECT_EQ(*taken.rbegin(), 1123);
  EXPECT_EQ(pool.take().error().code, Code::Exhausted);
}

TEST(PortPool, FreesWhatIsGivenBack) {
  PortPool pool("127.0.0.1", true);
  const auto port = pool.take();
  ASSERT_TRUE(port);
  pool.give_back(*port);
  EXPECT_GE(listen_on(*port, false).get(), 0);
}

TEST(PortPool, TakesNothingWhereItCannotBind) {
  PortPool pool("192.0.2.1", true);  // not an address of this host
  EXPECT_EQ(pool.take().error().code, Code::Exhausted);
}

}  // namespace
}  // namespace osb::runtime
