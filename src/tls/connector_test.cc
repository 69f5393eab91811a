#include "tls/connector.h"

#include <boost/asio/io_context.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "http/server.h"
#include "http/websocket.h"
#include "support/await.h"
#include "support/temp_dir.h"
#include "tls/resolver.h"
#include "tls/server.h"
#include "tls/test_certificates.h"

namespace osb::tls {
namespace {

using namespace std::chrono_literals;
using osb::testing::await;
using ::testing::AllOf;
using testing::Certificate;
using ::testing::Contains;
using ::testing::HasSubstr;

TEST(Resolver, AddressesAreTheirOwnAnswer) {
  net::io_context io(1);
  Resolver resolver(io.get_executor());
  for (const char* ip : {"127.0.0.1", "::1", "2001:db8::7"}) {
    const auto got = await(io, resolver.resolve(ip, 1s));
    ASSERT_TRUE(got);
    EXPECT_THAT(*got, ::testing::ElementsAre(ip));
  }
}

TEST(Resolver, LocalhostIsFound) {
  net::io_context io(1);
  Resolver resolver(io.get_executor());
  const auto got = await(io, resolver.resolve("localhost", 10s));
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_THAT(*got, Contains(::testing::AnyOf("127.0.0.1", "::1")));
}

TEST(Resolver, BadNamesAreNamed) {
  net::io_context io(1);
  Resolver resolver(io.get_executor());
  // Longer than a label may be: refused without a query.
  const std::string bad = std::string(64, 'a') + ".invalid";
  const auto got = await(io, resolver.resolve(bad, 10s));
  ASSERT_FALSE(got);
  EXPECT_THAT(got.error().message, HasSubstr(bad));
  EXPECT_FALSE(await(io, resolver.resolve("", 1s)));
}

TEST(Resolver, MayGoWhileALookupRuns) {
  net::io_context io(1);
  {
    Resolver resolver(io.get_executor());
    const auto got = await(io, resolver.resolve("localhost", 0ms));
    if (!got) EXPECT_EQ(got.error().code, Code::Timeout);
  }
  io.poll();
}

class ConnectorTest : public ::testing::Test {
 protected:
  ConnectorTest() {
    ClientOptions options;
    options.ca_pem = root_.certificate_pem();
    client_context_ = *ClientContext::make(options);
    server_context_ = *ServerContext::make(leaf_.identity());
  }
  ~ConnectorTest() override {
    client_.reset();
    if (server_) await(io_, server_->stop(0ms));
    server_.reset();
    io_.restart();
    io_.poll();
  }

  std::uint16_t serve(bool secure, http::Handler handler) {
    http::ServerOptions options;
    if (secure) options.secure = secure_with(server_context_);
    server_ = std::make_unique<http::Server>(io_.get_executor(), std::move(handler), std::move(options));
    const auto bound = server_->listen(http::Address::tcp("127.0.0.1", 0));
    EXPECT_TRUE(bound);
    client_ = std::make_unique<http::Client>(make_connector(io_.get_executor(), client_context_));
    return bound->port;
  }

  Result<std::string> get(const std::string& origin, const std::string& target = "/") {
    return await(io_, fetch(origin, target));
  }
  net::awaitable<Result<std::string>> fetch(std::string origin, std::string target) {
    http::ClientRequest request;
    request.target = std::move(target);
    auto response = co_await client_->send(std::move(origin), std::move(request));
    if (!response) co_return Failure(response.error());
    co_return co_await response->body->read_all(64 << 20);
  }

  net::io_context io_{1};
  Certificate root_{{.common_name = "root", .alt_names = "", .authority = true}};
  Certificate leaf_{{.common_name = "box", .alt_names = "DNS:localhost,IP:127.0.0.1"}, &root_};
  std::shared_ptr<const ClientContext> client_context_;
  std::shared_ptr<ServerContext> server_context_;
  std::unique_ptr<http::Server> server_;
  std::unique_ptr<http::Client> client_;
};

net::awaitable<http::Response> greet(http::Request& request) {
  co_return http::text_response(200, "hello " + request.target + " from " + request.peer);
}

TEST_F(ConnectorTest, EveryFormOfOriginIsUnderstood) {
  const std::string port = std::to_string(serve(false, greet));
  for (const std::string& origin : {"http://localhost:" + port, "http://127.0.0.1:" + port, "localhost:" + port}) {
    const auto got = get(origin, "/a");
    ASSERT_TRUE(got) << origin << ": " << got.error().message;
    EXPECT_EQ(*got, "hello /a from 127.0.0.1") << origin;
  }
  const osb::testing::TempDir dir;
  const std::string path = (dir / "s.sock").string();
  ASSERT_TRUE(server_->listen(http::Address::unix_socket(path)));
  const auto got = get("unix:" + path);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(*got, "hello / from unix");
  EXPECT_FALSE(get("ftp://localhost"));
}

TEST_F(ConnectorTest, AGuardSeesEveryAddressBeforeTheFirstPacket) {
  int served = 0;
  const std::string port = std::to_string(serve(false, [&](http::Request& request) {
    ++served;
    return greet(request);
  }));
  std::vector<std::string> asked;
  client_ = std::make_unique<http::Client>(make_connector(
      io_.get_executor(), client_context_, [&](const http::Url& origin, const std::string& address) -> Result<void> {
        asked.push_back(origin.host + " " + address);
        if (origin.host == "localhost") return fail(Code::Forbidden, "not there");
        return {};
      }));
  EXPECT_EQ(get("http://localhost:" + port).error().code, Code::Forbidden);
  EXPECT_EQ(served, 0);
  EXPECT_TRUE(get("http://127.0.0.1:" + port));
  ASSERT_EQ(asked.size(), 2u);
  EXPECT_TRUE(asked[0] == "localhost 127.0.0.1" || asked[0] == "localhost ::1") << asked[0];
  EXPECT_EQ(asked[1], "127.0.0.1 127.0.0.1");
}

TEST_F(ConnectorTest, PlainHttpToATlsPortIsAnsweredInClearText) {
  const std::uint16_t port = serve(true, greet);
  const auto got = get("http://127.0.0.1:" + std::to_string(port));
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_NE(got->find("this port speaks HTTPS: use https://"), std::string::npos) << *got;
  // Bytes sent behind it do not destroy the answer.
  for (const std::string method : {"DELETE", "OPTIONS", "CONNECT"}) {
    auto raw = await(io_, http::connect_plain(http::Address::tcp("127.0.0.1", port), 5s));
    ASSERT_TRUE(raw) << raw.error().message;
    (*raw)->set_timeout(10s);
    ASSERT_TRUE(await(io_, (*raw)->write_all(method + " / HTTP/1.1\r\n" + std::string(200'000, 'x'))));
    std::string answer;
    char buffer[4096];
    for (;;) {
      const auto more = await(io_, (*raw)->read_some(buffer));
      ASSERT_TRUE(more) << more.error().message << " after " << answer;
      if (*more == 0) break;
      answer.append(buffer, *more);
    }
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 400 ")) << answer;
  }
  EXPECT_TRUE(get("https://127.0.0.1:" + std::to_string(port))) << "others are still served";
}

TEST_F(ConnectorTest, HttpsServesManyRequestsAndBigBodies) {
  const std::string big(20 << 20, 'b');
  const std::string port = std::to_string(serve(true, [&](http::Request& request) -> net::awaitable<http::Response> {
    co_return http::text_response(200, request.target == "/big" ? big : "small");
  }));
  for (int i = 0; i < 3; ++i) {
    const auto small = get("https://localhost:" + port);
    ASSERT_TRUE(small) << small.error().message;
    EXPECT_EQ(*small, "small");
  }
  const auto got = get("https://127.0.0.1:" + port, "/big");
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_TRUE(*got == big);
  EXPECT_EQ(server_->open_connections(), 2U);  // one per origin, kept
}

TEST_F(ConnectorTest, FailuresNameTheHost) {
  const std::string port = std::to_string(serve(true, greet));
  client_ = std::make_unique<http::Client>(make_connector(io_.get_executor()));
  const auto untrusted = get("https://localhost:" + port);
  ASSERT_FALSE(untrusted);
  EXPECT_THAT(untrusted.error().message, HasSubstr("certificate verify failed for localhost"));
  await(io_, server_->stop(0ms));
  const auto refused = get("http://localhost:" + port);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, AllOf(HasSubstr("localhost"), HasSubstr("refused")));
}

TEST_F(ConnectorTest, WebSocketsRunOverTls) {
  const std::string port = std::to_string(serve(true, [](http::Request& request) -> net::awaitable<http::Response> {
    co_return http::websocket_response(request, {}, [](http::WebSocket& socket) -> net::awaitable<void> {
      while (auto message = co_await socket.read()) co_await socket.send_binary(message->data);
    });
  }));
  const std::uint16_t code = await(io_, [](std::string origin, auto context) -> net::awaitable<std::uint16_t> {
    auto connector = make_connector(co_await net::this_coro::executor, context);
    auto transport = co_await connector->connect(origin, 5s);
    EXPECT_TRUE(transport) << transport.error().message;
    auto socket = co_await http::websocket_connect(std::move(*transport), "localhost", "/ws", {}, {});
    EXPECT_TRUE(socket) << socket.error().message;
    for (const std::size_t size : {5, 500'000}) {
      const std::string sent(size, 's');
      EXPECT_TRUE(co_await (*socket)->send_binary(sent));
      const auto got = co_await (*socket)->read();
      EXPECT_TRUE(got && got->data == sent) << size;
    }
    co_await (*socket)->close(4001, "enough");
    co_return (*socket)->close_code();
  }("https://localhost:" + port, client_context_));
  EXPECT_EQ(code, 4001);
}

}  // namespace
}  // namespace osb::tls
