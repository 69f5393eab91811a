// Clients that take places and send no request, against a real server.

#include <deque>

#include "http/http_fixture.h"
#include "http/reactor.h"

namespace osb::http {
namespace {

using namespace osb::http::testing;

constexpr std::string_view kHalf = "GET / HTTP/1.1\r\nHost: x\r\nX-A";
constexpr std::string_view kRest = ": b\r\nConnection: close\r\n\r\n";
constexpr std::string_view kKeyed = "GET / HTTP/1.1\r\nHost: x\r\nKey: yes\r\n\r\n";

class ServerPlacesTest : public HttpFixture {
 protected:
  Server& serve_limited(std::size_t connections, std::size_t half_sent_per_client = 0) {
    ServerOptions options;
    options.limits.connections = connections;
    options.limits.half_sent_per_client = half_sent_per_client;
    options.is_known = [](const Request& request) { return request.headers.contains("Key"); };
    options.is_vital = [](const Request& request) { return request.path() == "/health"; };
    server = &serve(
        [](Request& request) -> net::awaitable<Response> {
          if (request.path() == "/large") co_return text_response(200, std::string(32 << 20, 'x'));
          co_return text_response(200, "served");
        },
        std::move(options));
    return *server;
  }

  // A connection of which the server has read `bytes`, and knows that no more have come.
  Transport& attack(std::string_view bytes) {
    attackers.push_back(connect());
    if (!bytes.empty()) send(*attackers.back(), bytes);
    settle();
    return *attackers.back();
  }
  // Everything that has arrived at the server is dealt with: another request is answered after it.
  void settle() {
    while (io.poll() > 0) {
    }
  }

  Server* server = nullptr;
  std::deque<std::unique_ptr<Transport>> attackers;
};

TEST_F(ServerPlacesTest, HalfSentHeadsDoNotKeepOthersOut) {
  serve_limited(16);
  auto friendly = connect();
  send(*friendly, kKeyed);
  EXPECT_TRUE(read_until(*friendly, "served").contains("200 OK"));
  for (int i = 0; i < 100; ++i) {
    attack(kHalf);
    EXPECT_LE(server->open_connections(), 16U);
    if (i % 10 != 9) continue;
    EXPECT_EQ(status_in(exchange("GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")), 200);
    EXPECT_EQ(status_in(exchange("GET / HTTP/1.1\r\nHost: x\r\nKey: yes\r\nConnection: close\r\n\r\n")), 200);
    send(*friendly, kKeyed);
    EXPECT_TRUE(read_until(*friendly, "served").contains("200 OK"));
  }
  // The oldest were told; the youngest may still finish.
  EXPECT_EQ(status_in(read_to_end(*attackers.front())), 503);
  send(*attackers.back(), kRest);
  EXPECT_EQ(status_in(read_to_end(*attackers.back())), 200);
  EXPECT_GE(server->ended_connections(), 80U);
}

TEST_F(ServerPlacesTest, SilentIdleAndStalledConnectionsDoNotEither) {
  for (const std::string_view bytes :
       {std::string_view(), std::string_view("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
        std::string_view("GET /large HTTP/1.1\r\nHost: x\r\n\r\n"),
        std::string_view("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"), std::string_view("\x16\x03 TLS"),
        std::string_view("GET /large HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\n")}) {
    serve_limited(16);
    for (int i = 0; i < 40; ++i) attack(bytes);
    EXPECT_EQ(status_in(exchange("GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")), 200) << bytes;
    EXPECT_EQ(status_in(exchange("GET / HTTP/1.1\r\nHost: x\r\nKey: yes\r\nConnection: close\r\n\r\n")), 200) << bytes;
    attackers.clear();
  }
}

TEST_F(ServerPlacesTest, OneAddressHasSoManyHalfSentHeads) {
  serve_limited(1000, 3);
  for (int i = 0; i < 5; ++i) attack(kHalf);
  EXPECT_EQ(status_in(read_to_end(*attackers[0])), 503);
  EXPECT_EQ(status_in(read_to_end(*attackers[1])), 503);
  for (int i = 2; i < 5; ++i) {
    send(*attackers[i], kRest);
    EXPECT_EQ(status_in(read_to_end(*attackers[i])), 200) << i;
  }
}

TEST_F(ServerPlacesTest, HealthIsAnsweredWhenKnownClientsHaveAllPlaces) {
  serve_limited(8);
  for (int i = 0; i < 8; ++i) {
    send(attack(""), kKeyed);
    read_until(*attackers.back(), "served");
  }
  for (int i = 0; i < 40; ++i) attack(kHalf);  // in the reserve
  EXPECT_EQ(status_in(exchange("GET /health HTTP/1.1\r\nHost: x\r\n\r\n")), 200);
  EXPECT_EQ(status_in(exchange("GET / HTTP/1.1\r\nHost: x\r\nKey: yes\r\n\r\n")), 503);
  // None of the first had to go.
  for (int i = 0; i < 8; ++i) {
    send(*attackers[i], kKeyed);
    EXPECT_TRUE(read_until(*attackers[i], "served").contains("200 OK")) << i;
  }
}

TEST_F(ServerPlacesTest, HeadsHaveLessTimeUnderPressure) {
  ServerOptions options;
  options.limits.connections = 4;
  options.limits.pressed_time = std::chrono::hours(1);
  options.limits.header_time = std::chrono::hours(24);
  options.is_known = [](const Request& request) { return request.headers.contains("Key"); };
  serve([](Request&) -> net::awaitable<Response> { co_return text_response(200, "served"); }, options);
  for (int i = 0; i < 3; ++i) attack(kHalf);
  send(*attackers[2], kRest);
  EXPECT_EQ(status_in(read_to_end(*attackers[2])), 200) << "in time";
  net::use_service<Reactor>(io).expire(Reactor::now() + options.limits.pressed_time);
  EXPECT_EQ(status_in(read_to_end(*attackers[1])), 408) << "it came under pressure";
  send(*attackers[0], kRest);
  EXPECT_EQ(status_in(read_to_end(*attackers[0])), 200) << "it came before";
}

TEST_F(ServerPlacesTest, ManyClientsThatComeAtOnceAreAllServed) {
  serve_limited(64);
  std::deque<std::unique_ptr<Transport>> clients;
  for (int i = 0; i < 64; ++i) {
    // All are in the kernel's queue, with their requests, before the server accepts one.
    auto made = osb::testing::await(io, connect_plain(address, Millis(5000)));
    clients.push_back(std::move(*made));
    iovec piece{const_cast<char*>(kKeyed.data()), kKeyed.size()};
    clients.back()->try_write({&piece, 1});
  }
  for (auto& client : clients) {
    client->set_timeout(Millis(10000));
    EXPECT_TRUE(read_until(*client, "served").contains("200 OK"));
  }
  EXPECT_EQ(server->ended_connections(), 0U);
}

}  // namespace
}  // namespace osb::http
