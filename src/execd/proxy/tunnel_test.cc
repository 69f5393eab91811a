#include "execd/proxy/tunnel.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "http/http_fixture.h"
#include "http/listener.h"
#include "http/websocket.h"

namespace osb::execd {
namespace {

using osb::testing::await;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Socket = std::unique_ptr<http::WebSocket>;

class TunnelTest : public http::testing::HttpFixture {
 protected:
  TunnelTest() {
    add_tunnel_route(router, Millis(20));
    tunnels = &serve([this](http::Request& request) { return router.dispatch(request); });
    UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof name;
    EXPECT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&name), length), 0);
    EXPECT_EQ(::listen(socket.get(), 8), 0);
    EXPECT_EQ(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&name), &length), 0);
    port = ntohs(name.sin_port);
    listener.emplace(io.get_executor(), std::move(socket));
  }

  Socket open() {
    auto socket = await(io, http::websocket_connect(connect(), "localhost", "/tunnel/" + std::to_string(port), {}, {}));
    EXPECT_TRUE(socket) << (socket ? "" : socket.error().message);
    return socket ? std::move(*socket) : nullptr;
  }
  std::unique_ptr<http::Transport> accept() {
    auto socket = await(io, listener->accept());
    EXPECT_TRUE(socket);
    return http::make_plain_transport(io.get_executor(), std::move(*socket));
  }
  std::string get(const std::string& target) {
    return exchange("GET " + target + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  }

  http::Router router;
  http::Server* tunnels = nullptr;
  std::optional<http::Listener> listener;
  std::uint16_t port = 0;
};

TEST_F(TunnelTest, BytesGoBothWaysAndEachSideEndsByItself) {
  const Socket client = open();
  const auto server = accept();
  ASSERT_TRUE(await(io, client->send_binary(std::string_view("a\0b", 3))));
  EXPECT_EQ(read_until(*server, "b"), std::string("a\0b", 3));
  ASSERT_TRUE(await(io, client->send_text(R"({"type":"eof"})")));
  EXPECT_EQ(read_to_end(*server), "");
  send(*server, "after the end");
  server->shutdown_write();
  std::string got;
  for (;;) {
    const auto message = await(io, client->read());
    ASSERT_TRUE(message) << message.error().message;
    if (message->text) {
      EXPECT_EQ(message->data, R"({"type":"eof"})");
      break;
    }
    got += message->data;
  }
  EXPECT_EQ(got, "after the end");
  EXPECT_FALSE(await(io, client->read()));
  EXPECT_EQ(client->close_code(), 1000);
}

TEST_F(TunnelTest, AClientThatLeavesClosesThePort) {
  Socket client = open();
  const auto server = accept();
  client.reset();
  EXPECT_EQ(read_to_end(*server), "");
}

TEST_F(TunnelTest, AClientThatLeavesIsNoticedWhileThePortTakesNothing) {
  Socket client = open();
  const auto server = accept();
  // More than the sockets hold between them; the first byte at the port tells that the tunnel has it all.
  ASSERT_TRUE(await(io, client->send_binary(std::string(16 << 20, 'x'))));
  char byte;
  ASSERT_TRUE(await(io, server->read_some({&byte, 1})));
  client.reset();
  while (tunnels->open_connections() > 0) io.run_one();
}

TEST_F(TunnelTest, APortThatBreaksOffIsTold) {
  const Socket client = open();
  {
    const auto server = accept();
    const linger reset{.l_onoff = 1, .l_linger = 0};
    ASSERT_EQ(::setsockopt(server->native_fd(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset), 0);
  }
  EXPECT_FALSE(await(io, client->read()));
  EXPECT_EQ(client->close_code(), 1011);
}

TEST_F(TunnelTest, RefusalsComeBeforeTheUpgrade) {
  EXPECT_THAT(get("/tunnel/0"), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(get("/tunnel/x"), HasSubstr("from 1 to 65535"));
  EXPECT_THAT(get("/tunnel/" + std::to_string(port)), StartsWith("HTTP/1.1 400"));  // no upgrade
  listener->close();
  const auto refused =
      await(io, http::websocket_connect(connect(), "localhost", "/tunnel/" + std::to_string(port), {}, {}));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("502"));
}

}  // namespace
}  // namespace osb::execd
