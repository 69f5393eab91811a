#include "http/reverse_proxy.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "http/http_fixture.h"

namespace osb::http {
namespace {

using namespace http::testing;
using osb::testing::await;

// The fixture's server is the proxy; `backend` is what stands behind it.
class ProxyTest : public HttpFixture {
 protected:
  void start(Handler behind, ClientTimeouts timeouts = {}) {
    backend = std::make_unique<Server>(io.get_executor(), std::move(behind));
    backend_address = *backend->listen(Address::tcp("127.0.0.1", 0));
    proxy = &serve([this, timeouts](Request& request) -> net::awaitable<Response> {
      ProxyTarget target;
      target.origin = backend_address.to_string();
      target.target = request.target;
      target.add = {{"X-Forwarded-Proto", "http"}};
      target.drop = {"X-Forwarded-Host"};
      target.timeouts = timeouts;
      return forward(client, request, std::move(target));
    });
  }
  ~ProxyTest() override {
    client.clear();
    if (backend) await(io, backend->stop(Millis(0)));
  }

  Server* proxy = nullptr;
  std::unique_ptr<Server> backend;
  Address backend_address;
  Client client{make_plain_connector()};
};

TEST_F(ProxyTest, PassesRequestAndResponseOnExactly) {
  std::string target;
  Headers seen;
  start([&](Request& request) -> net::awaitable<Response> {
    target = request.target;
    seen = request.headers;
    Response response = text_response(418, "body");
    response.headers.add("Set-Cookie", "a=1");
    response.headers.add("Set-Cookie", "b=2");
    co_return response;
  });
  const std::string answer = exchange(
      "GET /a%2Fb/../c//d?q=%20x&y=+&empty HTTP/1.1\r\nHost: shop.example\r\nX-Custom: 1\r\nX-Custom: 2\r\n"
      "Keep-Alive: 5\r\nX-Forwarded-Host: evil\r\nX-Hop: y\r\nConnection: close, X-Hop\r\n\r\n");
  EXPECT_EQ(target, "/a%2Fb/../c//d?q=%20x&y=+&empty");
  EXPECT_EQ(seen.get("Host"), "shop.example");
  EXPECT_EQ(seen.count("X-Custom"), 2u);
  EXPECT_EQ(seen.get("X-Forwarded-Proto"), "http");
  for (const char* gone : {"Keep-Alive", "X-Hop", "Connection", "X-Forwarded-Host"}) {
    EXPECT_FALSE(seen.contains(gone)) << gone;
  }
  EXPECT_EQ(status_in(answer), 418);
  EXPECT_TRUE(answer.contains("Set-Cookie: a=1\r\nSet-Cookie: b=2\r\n")) << answer;
  EXPECT_TRUE(answer.ends_with("\r\n\r\nbody")) << answer;
}

TEST_F(ProxyTest, AnswersOfEverySizeShareOneConnectionToUpstream) {
  start([](Request& request) -> net::awaitable<Response> {
    co_return text_response(200, std::string(std::stoul(request.target.substr(1)), 'x'));
  });
  auto connection = connect();
  // Around what is copied behind a head, what is passed on as text, and what one read takes.
  for (const std::size_t size : {0, 1, 1024, 1025, 4000, 4096, 16384, 16385, 300'000}) {
    send(*connection, "GET /" + std::to_string(size) + " HTTP/1.1\r\nHost: x\r\n\r\n");
    const std::string head = read_until(*connection, "\r\n\r\n");
    EXPECT_TRUE(head.contains("Content-Length: " + std::to_string(size) + "\r\n")) << head;
    std::string body(size, '-');
    for (std::size_t got = 0; got < size;) {
      const auto more = await(io, connection->read_some(std::span(body).subspan(got)));
      ASSERT_TRUE(more && *more > 0);
      got += *more;
    }
    EXPECT_TRUE(body == std::string(size, 'x')) << size;
  }
  EXPECT_EQ(backend->open_connections(), 1u);
}

TEST_F(ProxyTest, BodiesStreamBothWaysWithoutBeingHeld) {
  // Twice as large as all socket buffers together could hold: passes only if both sides stream.
  constexpr std::size_t kSize = 64u << 20;
  start([&](Request& request) -> net::awaitable<Response> {
    Response response;
    response.body = StreamBody{.produce = [body = request.body](BodyWriter& out) -> net::awaitable<Result<void>> {
                                 for (;;) {
                                   auto piece = co_await body->read();
                                   if (!piece) co_return Failure(piece.error());
                                   if (piece->empty()) co_return Result<void>();
                                   if (auto sent = co_await out.write(*piece); !sent) co_return sent;
                                 }
                               },
                               .length = kSize};
    co_return response;
  });
  auto connection = connect();
  send(*connection,
       "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: " + std::to_string(kSize) + "\r\n\r\n");
  net::co_spawn(
      io,
      [&]() -> net::awaitable<void> {
        const std::string piece(1 << 20, 'z');
        for (std::size_t sent = 0; sent < kSize; sent += piece.size()) {
          if (!co_await connection->write_all(piece)) co_return;
        }
      },
      net::detached);
  const std::string answer = read_to_end(*connection);
  EXPECT_EQ(body_of(answer).size(), kSize);
}

TEST_F(ProxyTest, EventsArriveAsTheyAreSent) {
  net::steady_timer gate(io, net::steady_timer::time_point::max());
  start([&](Request&) -> net::awaitable<Response> {
    co_return event_stream([&](BodyWriter& out) -> net::awaitable<Result<void>> {
      if (auto sent = co_await out.write("first\n\n"); !sent) co_return sent;
      boost::system::error_code ec;
      co_await gate.async_wait(net::redirect_error(net::use_awaitable, ec));
      co_return co_await out.write("second\n\n");
    });
  });
  auto connection = connect();
  send(*connection, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(read_until(*connection, "first\n\n\r\n").contains("text/event-stream"));
  gate.cancel();
  EXPECT_TRUE(read_until(*connection, "0\r\n\r\n").ends_with("second\n\n\r\n0\r\n\r\n"));
}

TEST_F(ProxyTest, AClientThatLeavesEndsTheUpstreamRequest) {
  start([&](Request&) -> net::awaitable<Response> {
    co_return event_stream([&](BodyWriter& out) -> net::awaitable<Result<void>> {
      co_await out.write("x");
      co_await out.peer_closed();
      co_return Result<void>();
    });
  });
  auto connection = connect();
  send(*connection, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  read_until(*connection, "1\r\nx\r\n");
  connection->close();
  while (backend->open_connections() > 0) io.run_one();  // hangs if the proxy kept the stream
}

// An upstream that does not answer until the gate is opened, or never.
class SilentUpstream : public ProxyTest {
 protected:
  void start_silent(Millis after_hangup) {
    ClientTimeouts timeouts;
    timeouts.head = Millis(0);
    timeouts.after_hangup = after_hangup;
    start(
        [this](Request& request) -> net::awaitable<Response> {
          const auto body = co_await request.body->read_all(1 << 20);
          received = body ? *body : "broken";
          ++asked;
          boost::system::error_code ec;
          co_await gate.async_wait(net::redirect_error(net::use_awaitable, ec));
          co_return text_response(200, "at last");
        },
        timeouts);
  }
  void until_asked() {
    while (asked == 0) io.run_one();
  }

  net::steady_timer gate{io, net::steady_timer::time_point::max()};
  int asked = 0;
  std::string received;
};

TEST_F(SilentUpstream, AClientThatLeavesBeforeTheAnswerEndsTheUpstreamRequest) {
  start_silent(Millis(1));
  for (const char* request :
       {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"}) {
    asked = 0;
    auto connection = connect();
    send(*connection, request);
    until_asked();
    connection->close();
    while (proxy->open_connections() > 0) io.run_one();  // hangs if the proxy kept waiting
  }
  EXPECT_EQ(received, "abc");
}

TEST_F(SilentUpstream, AClientThatLeavesAtOnceStillHasItsRequestPassedOn) {
  start_silent(Millis(1));
  auto connection = connect();
  send(*connection, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
  connection->close();
  until_asked();
  EXPECT_EQ(received, "abc");
  while (proxy->open_connections() > 0) io.run_one();
}

TEST_F(SilentUpstream, AClientThatHasOnlyEndedItsSideGetsTheAnswer) {
  start_silent(Millis(600'000));
  auto connection = connect();
  send(*connection, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  connection->shutdown_write();
  until_asked();
  gate.cancel();
  EXPECT_TRUE(read_to_end(*connection).ends_with("at last"));
}

TEST_F(SilentUpstream, TheNextRequestIsNoSignOfLeaving) {
  start_silent(Millis(1));
  auto connection = connect();
  send(*connection, "GET /1 HTTP/1.1\r\nHost: x\r\n\r\n");
  until_asked();
  send(*connection, "GET /2 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  io.poll();
  gate.cancel();
  EXPECT_TRUE(read_until(*connection, "at last").contains("200 OK"));
  while (asked < 2) io.run_one();
  gate.cancel();
  EXPECT_TRUE(read_to_end(*connection).ends_with("at last"));
}

TEST_F(SilentUpstream, StoppingDoesNotWaitForIt) {
  start_silent(Millis(600'000));
  auto connection = connect();
  send(*connection, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  until_asked();
  await(io, proxy->stop(Millis(1)));
  EXPECT_EQ(proxy->open_connections(), 0u);
}

TEST_F(ProxyTest, UpstreamFailuresAreClearGatewayErrors) {
  start([](Request& request) -> net::awaitable<Response> {
    co_return event_stream([&](BodyWriter& out) -> net::awaitable<Result<void>> {
      (void)request;
      if (auto sent = co_await out.write("half"); !sent) co_return sent;
      co_return fail(Code::Internal, "died");
    });
  });
  const std::string truncated = exchange("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(truncated.ends_with("4\r\nhalf\r\n")) << truncated;
  await(io, backend->stop(Millis(0)));
  client.clear();
  const std::string gone = exchange("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(status_in(gone), 502);
  EXPECT_TRUE(gone.contains("PROXY::UPSTREAM_ERROR")) << gone;
}

TEST_F(ProxyTest, ATargetCanAnswerForAnUpstreamThatDoesNot) {
  serve([this](Request& request) {
    ProxyTarget target;
    target.origin = "unix:/nobody/listens/here";
    target.target = request.target;
    target.on_error = [](const Error& error) { return text_response(503, "asleep: " + error.message); };
    return forward(client, request, std::move(target));
  });
  const std::string answer = exchange("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(status_in(answer), 503);
  EXPECT_TRUE(body_of(answer).starts_with("asleep: connect ")) << answer;
}

TEST_F(ProxyTest, ASlowUpstreamIsAGatewayTimeout) {
  net::steady_timer gate(io, net::steady_timer::time_point::max());
  ClientTimeouts timeouts;
  timeouts.head = Millis(20);
  start(
      [&](Request&) -> net::awaitable<Response> {
        boost::system::error_code ec;
        co_await gate.async_wait(net::redirect_error(net::use_awaitable, ec));
        co_return text_response(200, "");
      },
      timeouts);
  EXPECT_EQ(status_in(exchange("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")), 504);
  gate.cancel();
}

TEST_F(ProxyTest, HeadAndBodilessAnswersStayBodiless) {
  start([](Request& request) -> net::awaitable<Response> {
    if (request.target == "/204") co_return empty_response(204);
    co_return text_response(200, "12345");
  });
  const std::string head = exchange("HEAD / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_TRUE(head.contains("Content-Length: 5\r\n")) << head;
  EXPECT_EQ(body_of(head), "");
  const std::string empty = exchange("GET /204 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(status_in(empty), 204);
  EXPECT_FALSE(empty.contains("Content-Length")) << empty;
}

TEST_F(ProxyTest, UpgradesBecomeATunnelThatKnowsHalfClosedSides) {
  start([](Request& request) -> net::awaitable<Response> {
    EXPECT_EQ(request.headers.get("Upgrade"), "echo");
    Response response;
    response.status = 101;
    response.headers = {{"Connection", "Upgrade"}, {"Upgrade", "echo"}};
    response.body = [](Transport& transport, std::string buffered) -> net::awaitable<void> {
      // Reads to the client's end of stream, then answers, then ends.
      std::string all = std::move(buffered);
      char piece[256];
      for (;;) {
        auto got = co_await transport.read_some(piece);
        if (!got) co_return;
        if (*got == 0) break;
        all.append(piece, *got);
      }
      co_await transport.write_all("you said " + all);
      transport.shutdown_write();
    };
    co_return response;
  });
  auto connection = connect();
  send(*connection, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nhel");
  EXPECT_EQ(status_in(read_until(*connection, "\r\n\r\n")), 101);
  send(*connection, "lo");
  connection->shutdown_write();
  EXPECT_EQ(read_to_end(*connection), "you said hello");
}

}  // namespace
}  // namespace osb::http
