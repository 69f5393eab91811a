// Hostile bytes at the port: each case ends in a clear 4xx/5xx or a closed connection, and the server goes on.

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "http/http_fixture.h"

namespace osb::http {
namespace {

using namespace http::testing;

net::awaitable<Response> read_everything(Request& request) {
  auto body = co_await request.body->read_all(1 << 20);
  if (!body) co_return problem(body.error());
  co_return text_response(200, *body);
}

class BadInput : public HttpFixture {
 protected:
  void still_serves() {
    EXPECT_EQ(status_in(exchange("GET /ok HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")), 200);
  }
};

TEST_F(BadInput, MalformedAndSmugglingHeadsAreRefused) {
  serve(read_everything);
  const std::string head = "POST / HTTP/1.1\r\nHost: x\r\n";
  const struct {
    const char* why;
    std::string request;
    int want;
  } rows[] = {
      {"no request line", "hello\r\n\r\n", 400},
      {"binary noise", "\x16\x03\x01\x02" + std::string(3, '\0') + "\r\n\r\n", 400},
      {"no version", "GET /\r\n\r\n", 400},
      {"unknown version", "GET / HTTP/2.0\r\nHost: x\r\n\r\n", 505},
      {"relative target", "GET foo HTTP/1.1\r\nHost: x\r\n\r\n", 400},
      {"no host", "GET / HTTP/1.1\r\n\r\n", 400},
      {"two hosts", "GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400},
      {"space before colon", "GET / HTTP/1.1\r\nHost : x\r\n\r\n", 400},
      {"empty field name", "GET / HTTP/1.1\r\nHost: x\r\n: y\r\n\r\n", 400},
      {"NUL in a value", "GET / HTTP/1.1\r\nHost: x\r\nA: b" + std::string(1, '\0') + "c\r\n\r\n", 400},
      {"bare LF line end", "GET / HTTP/1.1\r\nHost: x\nA: b\r\n\r\n", 400},
      {"bare CR in a line", "GET / HTTP/1.1\r\nHost: x\rA: b\r\n\r\n", 400},
      {"obs-fold", head + "A: b\r\n c\r\nContent-Length: 0\r\n\r\n", 400},
      {"length and encoding", head + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {"encoding and length", head + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n", 400},
      {"two lengths", head + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc", 400},
      {"two equal lengths", head + "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", 400},
      {"list of lengths", head + "Content-Length: 3, 3\r\n\r\nabc", 400},
      {"negative length", head + "Content-Length: -1\r\n\r\n", 400},
      {"signed length", head + "Content-Length: +3\r\n\r\nabc", 400},
      {"hex length", head + "Content-Length: 0x3\r\n\r\nabc", 400},
      {"overflowing length", head + "Content-Length: 99999999999999999999\r\n\r\n", 400},
      {"encoding twice", head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {"unknown coding", head + "Transfer-Encoding: gzip\r\n\r\n", 501},
      {"disguised coding", head + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501},
      {"chunked is not last", head + "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n", 501},
      {"chunked in HTTP/1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
  };
  for (const auto& row : rows) {
    const std::string answer = exchange(row.request);
    EXPECT_EQ(status_in(answer), row.want) << row.why << ": " << answer;
    EXPECT_TRUE(answer.contains("\"message\"")) << row.why;
    EXPECT_TRUE(answer.contains("Connection: close")) << row.why;
  }
  still_serves();
}

TEST_F(BadInput, BrokenChunkedBodiesAreRefused) {
  serve(read_everything);
  const std::string head = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  const struct {
    const char* why;
    std::string body;
  } rows[] = {
      {"no size", "\r\nabc"},
      {"bad size", "xyz\r\nabc\r\n0\r\n\r\n"},
      {"negative size", "-1\r\nabc\r\n0\r\n\r\n"},
      {"overflowing size", "fffffffffffffffff\r\nabc"},
      {"bare LF", "3\nabc\r\n0\r\n\r\n"},
      {"chunk longer than announced", "3\r\nabcd\r\n0\r\n\r\n"},
      {"endless size line", std::string(10'000, '0')},
      {"endless extension", "3;" + std::string(10'000, 'x')},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(status_in(exchange(head + row.body)), 400) << row.why;
  }
  still_serves();
}

TEST_F(BadInput, ATruncatedBodyIsAnErrorForTheHandlerNotAnEnd) {
  std::vector<std::string> seen;
  serve([&](Request& request) -> net::awaitable<Response> {
    auto body = co_await request.body->read_all(1 << 20);
    seen.push_back(body ? "whole:" + *body : "broken");
    co_return text_response(200, "");
  });
  for (const char* part : {"Content-Length: 10\r\n\r\nabc", "Transfer-Encoding: chunked\r\n\r\n5\r\nab",
                           "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n"}) {
    auto connection = connect();
    send(*connection, std::string("POST / HTTP/1.1\r\nHost: x\r\n") + part);
    connection->shutdown_write();
    read_to_end(*connection);
  }
  EXPECT_EQ(seen, (std::vector<std::string>{"broken", "broken", "broken"}));
}

TEST_F(BadInput, OversizedHeadsAreRefused) {
  serve(read_everything, {.limits = {.header_bytes = 8 * 1024}, .on_complete = {}, .on_exception = {}, .secure = {}});
  const std::string big(20'000, 'a');
  EXPECT_EQ(status_in(exchange("GET / HTTP/1.1\r\nHost: x\r\nA: " + big + "\r\n\r\n")), 431);
  EXPECT_EQ(status_in(exchange("GET /" + big + " HTTP/1.1\r\nHost: x\r\n\r\n")), 431);
  std::string many = "GET / HTTP/1.1\r\nHost: x\r\n";
  for (int i = 0; i < 3000; ++i) many += "a: b\r\n";
  EXPECT_EQ(status_in(exchange(many + "\r\n")), 431);
  still_serves();
}

TEST_F(BadInput, ABodyBeyondTheHandlersLimitIsRefused) {
  serve([](Request& request) -> net::awaitable<Response> {
    auto body = co_await request.body->read_all(10);
    co_return body ? text_response(200, "") : problem(body.error());
  });
  EXPECT_EQ(status_in(exchange("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\nabc")), 413);
  EXPECT_EQ(status_in(exchange("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nb\r\nabcdefghijk\r\n")),
            413);
}

TEST_F(BadInput, ASlowLorisIsCutOff) {
  ServerOptions options;
  options.limits.header_time = Millis(50);
  serve(read_everything, options);
  auto connection = connect();
  send(*connection, "GET / HTTP/1.1\r\nHo");
  EXPECT_EQ(status_in(read_to_end(*connection)), 408);
}

TEST_F(BadInput, TlsIsAnsweredAtOnceWithAHint) {
  ServerOptions options;
  options.limits.header_time = std::chrono::hours(1);
  serve(read_everything, options);
  std::string hello("\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03", 11);
  hello.resize(517, 'r');
  for (const std::string& first : {hello, hello.substr(0, 2), hello + std::string(200'000, 'x')}) {
    const std::string answer = exchange(first);
    EXPECT_EQ(status_in(answer), 400);
    EXPECT_NE(body_of(answer).find("this port speaks plain HTTP: use http://"), std::string::npos) << answer;
  }
  // In two pieces, and after a request on the same connection.
  auto connection = connect();
  send(*connection, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(status_in(read_until(*connection, "\r\n\r\n")), 200);
  send(*connection, hello.substr(0, 1));
  send(*connection, hello.substr(1));
  EXPECT_NE(read_to_end(*connection).find("use http://"), std::string::npos);
  still_serves();
}

TEST_F(BadInput, AnIdleConnectionIsClosedSilently) {
  ServerOptions options;
  options.limits.idle = Millis(50);
  serve(read_everything, options);
  auto connection = connect();
  EXPECT_EQ(read_to_end(*connection), "");
}

TEST_F(BadInput, AStalledBodyIsCutOff) {
  ServerOptions options;
  options.limits.body_stall = Millis(50);
  serve(read_everything, options);
  auto connection = connect();
  send(*connection, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc");
  EXPECT_EQ(status_in(read_to_end(*connection)), 400);
}

TEST_F(BadInput, AReaderThatTakesNothingIsDropped) {
  ServerOptions options;
  options.limits.write_stall = Millis(50);
  bool failed = false;
  Server& server = serve(
      [&](Request&) -> net::awaitable<Response> {
        co_return event_stream([&](BodyWriter& out) -> net::awaitable<Result<void>> {
          const std::string piece(1 << 20, 'x');
          for (;;) {
            if (auto sent = co_await out.write(piece); !sent) {
              failed = sent.error().code == Code::Timeout;
              co_return sent;
            }
          }
        });
      },
      options);
  auto connection = connect();
  send(*connection, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  while (server.open_connections() == 0) io.run_one();
  while (server.open_connections() > 0) io.run_one();
  EXPECT_TRUE(failed);
}

TEST_F(BadInput, ClientsThatVanishAtAnyByteLeaveNothingBehind) {
  Server& server = serve(read_everything);
  const std::string request =
      "POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n0\r\n\r\nGET / HTTP/1.1\r\n";
  for (std::size_t cut = 0; cut <= request.size(); ++cut) {
    auto connection = connect();
    send(*connection, request.substr(0, cut));
    connection->close();
  }
  while (io.poll() > 0) {
  }
  while (server.open_connections() > 0) io.run_one();
  still_serves();
}

}  // namespace
}  // namespace osb::http
