#include "http/server.h"

#include <ctime>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "async/race.h"
#include "http/http_fixture.h"
#include "http/router.h"
#include "support/temp_dir.h"

namespace osb::http {
namespace {

using namespace http::testing;
using osb::testing::await;
using osb::testing::TempDir;

net::awaitable<Response> echo(Request& request) {
  auto body = co_await request.body->read_all(1 << 20);
  if (!body) co_return problem(body.error());
  co_return text_response(200, request.method + " " + request.target + " [" + *body + "]");
}

class ServerTest : public HttpFixture {};

TEST_F(ServerTest, AnswersAndKeepsTheConnection) {
  serve(echo);
  auto connection = connect();
  for (int i = 0; i < 3; ++i) {
    send(*connection, "GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
    const std::string answer = read_until(*connection, "[]");
    EXPECT_EQ(status_in(answer), 200);
    EXPECT_TRUE(answer.contains("Content-Length: 9\r\n")) << answer;
    EXPECT_TRUE(answer.contains("\r\nDate: ")) << answer;
    EXPECT_FALSE(answer.contains("Connection:")) << answer;
  }
}

TEST_F(ServerTest, TellsTheDateAsTheStandardWantsIt) {
  serve(echo);
  const std::time_t before = std::time(nullptr) - 1;  // the coarse clock may lag by a tick
  const std::string answer = exchange("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  const std::size_t at = answer.find("\r\nDate: ") + 8;
  const std::string date = answer.substr(at, answer.find("\r\n", at) - at);
  std::tm utc{};
  const char* rest = ::strptime(date.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &utc);
  ASSERT_TRUE(rest != nullptr && *rest == '\0') << date;
  const int weekday = utc.tm_wday;
  const std::time_t told = ::timegm(&utc);
  EXPECT_EQ(utc.tm_wday, weekday) << date;
  EXPECT_TRUE(before <= told && told <= std::time(nullptr)) << date;
}

TEST_F(ServerTest, PipelinedRequestsAreAnsweredInOrder) {
  serve(echo);
  const std::string answer = exchange(
      "POST /1 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabcGET /2 HTTP/1.1\r\nHost: x\r\n\r\n"
      "POST /3 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n2\r\nhi\r\n0\r\n\r\n");
  const std::size_t first = answer.find("POST /1 [abc]");
  const std::size_t second = answer.find("GET /2 []");
  const std::size_t third = answer.find("POST /3 [hi]");
  EXPECT_NE(first, std::string::npos);
  EXPECT_NE(third, std::string::npos);
  EXPECT_LT(first, second);
  EXPECT_LT(second, third);
}

TEST_F(ServerTest, AnUnreadBodyDoesNotBecomeTheNextRequest) {
  serve([](Request&) -> net::awaitable<Response> { co_return text_response(200, "ok."); });
  auto connection = connect();
  send(*connection,
       "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 31\r\n\r\nGET /evil HTTP/1.1\r\nHost: x\r\n\r\nGET / "
       "HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  const std::string all = read_to_end(*connection);
  std::size_t answers = 0;
  for (std::size_t at = all.find("ok."); at != std::string::npos; at = all.find("ok.", at + 1)) ++answers;
  EXPECT_EQ(answers, 2u) << all;
}

TEST_F(ServerTest, Http10IsAnsweredAndClosed) {
  serve(echo);
  const std::string answer = exchange("GET / HTTP/1.0\r\n\r\n");
  EXPECT_EQ(status_in(answer), 200);
  EXPECT_TRUE(answer.contains("Connection: close\r\n"));
}

TEST_F(ServerTest, HeadHasTheLengthAndNoBody) {
  serve(echo);
  const std::string answer = exchange("HEAD / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_TRUE(answer.contains("Content-Length: 9\r\n")) << answer;
  EXPECT_EQ(body_of(answer), "");
}

TEST_F(ServerTest, AnAnswerWithoutContentHasNoLengthForHeadEither) {
  serve([](Request&) -> net::awaitable<Response> { co_return empty_response(204); });
  for (const std::string method : {"GET", "HEAD"}) {
    const std::string answer = exchange(method + " / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    EXPECT_EQ(status_in(answer), 204);
    EXPECT_FALSE(answer.contains("Content-Length")) << answer;
  }
}

TEST_F(ServerTest, TextLargerThanTheSocketsHoldArrivesWhole) {
  const std::string text(std::size_t{16} << 20, 'x');
  serve([&](Request&) -> net::awaitable<Response> { co_return text_response(200, text); });
  const std::string answer = exchange("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_TRUE(body_of(answer) == text) << answer.size();
}

TEST_F(ServerTest, ExpectContinueIsAnsweredWhenTheBodyIsWanted) {
  serve(echo);
  auto connection = connect();
  send(*connection, "POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(read_until(*connection, "\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  send(*connection, "ok");
  EXPECT_TRUE(read_until(*connection, "[ok]").contains("200 OK"));
}

TEST_F(ServerTest, ExpectContinueIsNotAnsweredWhenTheBodyIsRefused) {
  serve([](Request&) -> net::awaitable<Response> { co_return problem(401, "X", "no"); });
  const std::string answer =
      exchange("POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(status_in(answer), 401);
  EXPECT_TRUE(answer.contains("Connection: close"));
}

TEST_F(ServerTest, StreamsAreChunkedAndEachWriteIsSentAtOnce) {
  net::steady_timer gate(io, net::steady_timer::time_point::max());
  serve([&](Request&) -> net::awaitable<Response> {
    co_return event_stream([&](BodyWriter& out) -> net::awaitable<Result<void>> {
      if (auto sent = co_await out.write("one\n\n"); !sent) co_return sent;
      boost::system::error_code ec;
      co_await gate.async_wait(net::redirect_error(net::use_awaitable, ec));
      co_return co_await out.write("two\n\n");
    });
  });
  auto connection = connect();
  send(*connection, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  const std::string start = read_until(*connection, "one\n\n\r\n");
  EXPECT_TRUE(start.contains("Transfer-Encoding: chunked\r\n")) << start;
  EXPECT_TRUE(start.ends_with("\r\n\r\n5\r\none\n\n\r\n")) << start;
  gate.cancel();
  EXPECT_EQ(read_until(*connection, "0\r\n\r\n"), "5\r\ntwo\n\n\r\n0\r\n\r\n");
}

TEST_F(ServerTest, AStreamThatFailsMidwayIsVisiblyTruncated) {
  serve([](Request& request) -> net::awaitable<Response> {
    const bool throws = request.target == "/throw";
    co_return event_stream([throws](BodyWriter& out) -> net::awaitable<Result<void>> {
      co_await out.write("half");
      if (throws) throw std::runtime_error("bug");
      co_return fail(Code::Internal, "backend gone");
    });
  });
  for (const char* target : {"/throw", "/fail"}) {
    const std::string answer = exchange(std::string("GET ") + target + " HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_TRUE(answer.ends_with("4\r\nhalf\r\n")) << answer;  // no final chunk
  }
}

TEST_F(ServerTest, AStreamOfKnownLengthMustKeepItsPromise) {
  serve([](Request& request) -> net::awaitable<Response> {
    Response response;
    const std::string text(request.target == "/short" ? "ab" : request.target == "/long" ? "abcdef" : "abcd");
    response.body = StreamBody{
        .produce = [text](BodyWriter& out) -> net::awaitable<Result<void>> { co_return co_await out.write(text); },
        .length = 4};
    co_return response;
  });
  EXPECT_EQ(body_of(exchange("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")), "abcd");
  EXPECT_EQ(body_of(exchange("GET /short HTTP/1.1\r\nHost: x\r\n\r\n")), "ab");  // and closed: visibly short
  EXPECT_EQ(body_of(exchange("GET /long HTTP/1.1\r\nHost: x\r\n\r\n")), "");
}

TEST_F(ServerTest, FilesAreSentWithTheirRange) {
  TempDir dir;
  const std::string path = dir / "f";
  const UniqueFd file(::open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  ASSERT_EQ(::ftruncate(file.get(), 5'000'000), 0);
  serve([&](Request&) -> net::awaitable<Response> {
    Response response;
    response.body = FileBody{UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)), 1000, 4'000'000};
    co_return response;
  });
  EXPECT_EQ(body_of(exchange("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")), std::string(4'000'000, '\0'));
}

TEST_F(ServerTest, AHandlerThatThrowsIsOneInternalError) {
  std::string seen;
  serve(
      [](Request&) -> net::awaitable<Response> {
        throw std::runtime_error("secret detail");
        co_return Response();
      },
      {.limits = {},
       .on_complete = {},
       .on_exception = [&](const Request&, const std::exception& e) { seen = e.what(); },
       .secure = {}});
  const std::string answer = exchange("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(status_in(answer), 500);
  EXPECT_TRUE(answer.contains("\"code\"")) << answer;
  EXPECT_FALSE(answer.contains("secret")) << answer;
  EXPECT_EQ(seen, "secret detail");
}

TEST_F(ServerTest, HeaderValuesCannotSplitAResponse) {
  serve([](Request&) -> net::awaitable<Response> {
    Response response = text_response(200, "x");
    response.headers.add("X-Evil", "a\r\nSet-Cookie: b");
    co_return response;
  });
  EXPECT_FALSE(exchange("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").contains("Set-Cookie"));
}

TEST_F(ServerTest, MoreConnectionsThanAllowedGetA503) {
  serve(echo, {.limits = {.connections = 1}, .on_complete = {}, .on_exception = {}, .secure = {}});
  auto first = connect();
  send(*first, "GET /1 HTTP/1.1\r\nHost: x\r\n\r\n");
  read_until(*first, "[]");
  auto second = connect();
  EXPECT_EQ(status_in(read_to_end(*second)), 503);
  send(*first, "GET /2 HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(read_until(*first, "[]").contains("GET /2"));
}

TEST_F(ServerTest, StopLetsARunningResponseEndAndClosesIdleConnections) {
  net::steady_timer gate(io, net::steady_timer::time_point::max());
  Server& server = serve([&](Request&) -> net::awaitable<Response> {
    boost::system::error_code ec;
    co_await gate.async_wait(net::redirect_error(net::use_awaitable, ec));
    co_return text_response(200, "late");
  });
  auto idle = connect();
  auto busy = connect();
  send(*busy, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  while (server.open_connections() < 2) io.run_one();
  io.poll();
  auto stopped = net::co_spawn(io, server.stop(Millis(10'000)), net::use_future);
  EXPECT_EQ(read_to_end(*idle), "");
  gate.cancel();
  const std::string answer = read_to_end(*busy);
  EXPECT_TRUE(answer.ends_with("late")) << answer;
  while (stopped.wait_for(std::chrono::seconds(0)) != std::future_status::ready) io.run_one();
  EXPECT_EQ(server.open_connections(), 0u);
}

TEST_F(ServerTest, IdleConnectionsAreEndedAtOnceAndBusyOnesAfterTheirAnswer) {
  net::steady_timer gate(io, net::steady_timer::time_point::max());
  Server& server = serve([&](Request& request) -> net::awaitable<Response> {
    boost::system::error_code ec;
    if (request.path() == "/late") co_await gate.async_wait(net::redirect_error(net::use_awaitable, ec));
    co_return text_response(200, "said");
  });
  auto silent = connect();
  auto idle = connect();
  send(*idle, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(read_until(*idle, "said").ends_with("said"));
  auto busy = connect();
  send(*busy, "GET /late HTTP/1.1\r\nHost: x\r\n\r\n");
  while (server.open_connections() < 3) io.run_one();
  io.poll();
  auto asking = connect();
  while (server.open_connections() < 4) io.run_one();
  io.poll();
  constexpr std::string_view kRequest = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  ASSERT_EQ(::send(asking->native_fd(), kRequest.data(), kRequest.size(), 0), static_cast<ssize_t>(kRequest.size()));
  server.end_idle();
  EXPECT_EQ(read_to_end(*silent), "");
  EXPECT_EQ(read_to_end(*idle), "");
  EXPECT_TRUE(read_until(*asking, "said").ends_with("said")) << "a request that has arrived is answered";
  gate.cancel();
  const std::string answer = read_to_end(*busy);
  EXPECT_TRUE(answer.ends_with("said")) << answer;
  EXPECT_TRUE(answer.contains("Connection: close")) << answer;
  EXPECT_EQ(exchange("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").substr(0, 12), "HTTP/1.1 200");
}

TEST_F(ServerTest, StopEndsWhatDoesNotEndByItself) {
  net::steady_timer never(io, net::steady_timer::time_point::max());
  Server& server = serve([&](Request&) -> net::awaitable<Response> {
    co_return event_stream([&](BodyWriter& out) -> net::awaitable<Result<void>> {
      co_await out.write("x");
      co_await out.peer_closed();
      co_return Result<void>();
    });
  });
  auto busy = connect();
  send(*busy, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  read_until(*busy, "1\r\nx\r\n");
  await(io, server.stop(Millis(1)));
  EXPECT_EQ(server.open_connections(), 0u);
}

TEST_F(ServerTest, StopCancelsHandlersThatWaitForSomethingElse) {
  net::steady_timer never(io, net::steady_timer::time_point::max());
  int asked = 0, bugs = 0;
  std::vector<std::string> truncated;
  ServerOptions options;
  options.on_exception = [&](const Request&, const std::exception&) { ++bugs; };
  options.on_complete = [&](const RequestSummary& summary) {
    if (summary.truncated) truncated.push_back(summary.request.target);
  };
  Server& server = serve(
      [&](Request& request) -> net::awaitable<Response> {
        ++asked;
        if (request.target == "/throws") co_await never.async_wait(net::use_awaitable);
        boost::system::error_code ec;
        co_await never.async_wait(net::redirect_error(net::use_awaitable, ec));
        co_return text_response(500, "ending");
      },
      options);
  auto first = connect();
  send(*first, "GET /throws HTTP/1.1\r\nHost: x\r\n\r\n");
  auto second = connect();
  send(*second, "GET /answers HTTP/1.1\r\nHost: x\r\n\r\n");
  while (asked < 2) io.run_one();
  await(io, server.stop(Millis(1)));
  EXPECT_EQ(server.open_connections(), 0u);
  EXPECT_EQ(bugs, 0);
  EXPECT_EQ(truncated, (std::vector<std::string>{"/throws", "/answers"}));
}

TEST_F(ServerTest, AProducerLearnsThatItsReaderHasLeft) {
  bool left = false;
  Server& server = serve([&](Request&) -> net::awaitable<Response> {
    co_return event_stream([&](BodyWriter& out) -> net::awaitable<Result<void>> {
      co_await out.flush();
      co_await out.peer_closed();
      left = true;
      co_return Result<void>();
    });
  });
  auto client = connect();
  send(*client, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  read_until(*client, "\r\n\r\n");
  client->close();
  while (server.open_connections() > 0) io.run_one();
  EXPECT_TRUE(left);
}

TEST_F(ServerTest, ASilentReaderHasNotLeft) {
  using namespace race;
  ServerOptions options;
  options.limits.header_time = options.limits.write_stall = Millis(10);
  std::size_t first = 9;
  serve(
      [&](Request&) -> net::awaitable<Response> {
        co_return event_stream([&](BodyWriter& out) -> net::awaitable<Result<void>> {
          co_await out.flush();
          net::steady_timer later(co_await net::this_coro::executor, Millis(1200));
          first = (co_await (out.peer_closed() || later.async_wait(net::use_awaitable))).index();
          co_return Result<void>();
        });
      },
      options);
  auto client = connect();
  send(*client, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  read_until(*client, "0\r\n\r\n");
  EXPECT_EQ(first, 1u);
}

TEST_F(ServerTest, ASlowReaderHoldsTheProducerBack) {
  std::size_t produced = 0;
  Server& server = serve([&](Request&) -> net::awaitable<Response> {
    co_return event_stream([&](BodyWriter& out) -> net::awaitable<Result<void>> {
      const std::string piece(64 * 1024, 'x');
      for (;;) {
        if (auto sent = co_await out.write(piece); !sent) co_return sent;
        produced += piece.size();
      }
    });
  });
  auto client = connect();
  send(*client, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  while (io.poll() > 0) {
  }
  const std::size_t once = produced;  // socket buffers full
  EXPECT_LT(once, 64u << 20);
  while (io.poll() > 0) {
  }
  EXPECT_EQ(produced, once);
  client->close();
  while (server.open_connections() > 0) io.run_one();
}

TEST_F(ServerTest, UnixSocketsWorkAndReplaceAStaleFile) {
  TempDir dir;
  const Address where = Address::unix_socket(dir / "s.sock");
  {
    UniqueFd stale(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr name{};  // leave a dead socket file behind
    (void)name;
    Server first(io.get_executor(), echo);
    ASSERT_TRUE(first.listen(where));
    await(io, first.stop(Millis(0)));
  }
  Server server(io.get_executor(), echo);
  auto bound = server.listen(where);
  ASSERT_TRUE(bound) << bound.error().message;
  auto connection = await(io, connect_plain(where, Millis(1000)));
  ASSERT_TRUE(connection) << connection.error().message;
  EXPECT_EQ((*connection)->peer(), "unix");
  send(**connection, "GET /u HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_TRUE(read_to_end(**connection).ends_with("GET /u []"));
  await(io, server.stop(Millis(0)));
}

TEST_F(ServerTest, ReportsEveryRequestOnce) {
  std::vector<std::string> seen;
  ServerOptions options;
  options.on_complete = [&](const RequestSummary& s) {
    seen.push_back(s.request.method + " " + std::to_string(s.status) + " " + std::to_string(s.body_bytes));
  };
  serve(echo, options);
  exchange("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  exchange("nonsense\r\n\r\n");
  EXPECT_EQ(seen, (std::vector<std::string>{"GET 200 8", "- 400 " + seen.back().substr(6)}));
}

TEST_F(ServerTest, ListeningTwiceOnOnePortIsAnErrorThatNamesIt) {
  serve(echo);
  Server other(io.get_executor(), echo);
  auto bound = other.listen(address);
  ASSERT_FALSE(bound);
  EXPECT_TRUE(bound.error().message.contains(address.to_string())) << bound.error().message;
}

}  // namespace
}  // namespace osb::http
