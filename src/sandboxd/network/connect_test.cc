#include "sandboxd/network/connect.h"

#include <gtest/gtest.h>

#include "sandboxd/network/network_fixture.h"
#include "support/await.h"

namespace osb::sandboxd {
namespace {

using namespace osb::sandboxd::testing;

Result<UniqueFd> connect_in_namespace(int netns_fd, std::uint16_t port, std::chrono::milliseconds timeout) {
  auto begun = begin_connect_in_namespace(netns_fd, port);
  if (!begun) return begun;
  net::io_context io(1);
  return osb::testing::await(io, finish_connect(std::move(*begun), port, timeout));
}

TEST(ConnectInNamespace, ReachesLoopbackOfEverySandbox) {
  in_world([](World& world) {
    for (const NetworkMode mode : {NetworkMode::Bridge, NetworkMode::None}) {
      const Slot slot = world.take(mode);
      const UniqueFd server = listen_in(slot.netns.get(), INADDR_LOOPBACK, 3000);
      const UniqueFd client = must(connect_in_namespace(slot.netns.get(), 3000, kLong));
      EXPECT_NE(::fcntl(client.get(), F_GETFL) & O_NONBLOCK, 0);
      EXPECT_NE(::fcntl(client.get(), F_GETFD) & FD_CLOEXEC, 0);
      const Accepted there = accept_from(server);
      EXPECT_TRUE(passes(client, there.fd) && passes(there.fd, client));
      const auto nobody = connect_in_namespace(slot.netns.get(), 3001, kLong);
      ASSERT_FALSE(nobody);
      EXPECT_EQ(nobody.error().code, Code::Unavailable);
    }
  });
}

TEST(ConnectInNamespace, AFullBacklogTimesOut) {
  in_world([](World& world) {
    const Slot slot = world.take();
    const UniqueFd server = socket_in(slot.netns.get(), SOCK_STREAM);
    bind_to(server, INADDR_LOOPBACK, 3000);
    ASSERT_EQ(::listen(server.get(), 0), 0);
    std::vector<UniqueFd> waiting;
    Result<UniqueFd> last;
    for (int i = 0; i < 8 && last; ++i) {
      last = connect_in_namespace(slot.netns.get(), 3000, kShort);
      if (last) waiting.push_back(std::move(*last));
    }
    ASSERT_FALSE(last);
    EXPECT_EQ(last.error().code, Code::Timeout);
  });
}

}  // namespace
}  // namespace osb::sandboxd
