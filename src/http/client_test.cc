#include "http/client.h"

#include <algorithm>
#include <sys/socket.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "http/http_fixture.h"

namespace osb::http {
namespace {

using namespace http::testing;
using osb::testing::await;

// A body from memory, in pieces, as a request stream.
class Pieces final : public BodySource {
 public:
  explicit Pieces(std::vector<std::string> pieces, std::optional<std::uint64_t> length = {}, bool fails = false)
      : pieces_(std::move(pieces)), length_(length), fails_(fails) {}
  net::awaitable<Result<std::string_view>> read() override {
    if (next_ < pieces_.size()) co_return pieces_[next_++];
    if (fails_) co_return fail(Code::Internal, "source broke");
    co_return std::string_view();
  }
  std::optional<std::uint64_t> length() const override { return length_; }

 private:
  std::vector<std::string> pieces_;
  std::optional<std::uint64_t> length_;
  bool fails_;
  std::size_t next_ = 0;
};

// A body that never ends: its reader waits until it is cancelled.
class Endless final : public BodySource {
 public:
  net::awaitable<Result<std::string_view>> read() override {
    ++waiting;
    net::steady_timer never(co_await net::this_coro::executor, net::steady_timer::time_point::max());
    co_await never.async_wait(net::as_tuple(net::use_awaitable));
    --waiting;
    co_return fail(Code::Cancelled, "cancelled");
  }
  std::optional<std::uint64_t> length() const override { return std::nullopt; }
  int waiting = 0;
};

// Connections without a server: the answer is there before the request, which stays unread.
class Answered final : public Connector {
 public:
  Answered(std::vector<UniqueFd>& peers, std::string answer) : peers_(peers), answer_(std::move(answer)) {}
  net::awaitable<Result<std::unique_ptr<Transport>>> connect(std::string, std::chrono::milliseconds) override {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) co_return fail(Code::Internal, "socketpair");
    peers_.emplace_back(ends[1]);
    if (::send(ends[1], answer_.data(), answer_.size(), 0) < 0) co_return fail(Code::Internal, "send");
    co_return make_plain_transport(co_await net::this_coro::executor, UniqueFd(ends[0]));
  }

 private:
  std::vector<UniqueFd>& peers_;
  std::string answer_;
};

// True once the other end of the connection is closed; reads everything it has sent.
bool hung_up(const UniqueFd& peer) {
  char sink[64 * 1024];
  for (;;) {
    const ssize_t n = ::recv(peer.get(), sink, sizeof sink, MSG_DONTWAIT);
    if (n <= 0) return n == 0 || errno != EAGAIN;
  }
}

class ClientTest : public HttpFixture {
 protected:
  Result<ClientResponse> send(ClientRequest request) {
    return await(io, client.send(address.to_string(), std::move(request)));
  }
  std::string text(Result<ClientResponse> response) {
    if (!response) return "error: " + response.error().message;
    auto body = await(io, response->body->read_all(1 << 24));
    return body ? *body : "error: " + body.error().message;
  }
  ~ClientTest() override { client.clear(); }

  Client client{make_plain_connector()};
};

TEST_F(ClientTest, SendsAndReceivesAndReusesItsConnection) {
  Server& server = serve([](Request& request) -> net::awaitable<Response> {
    auto body = co_await request.body->read_all(100);
    co_return text_response(200, request.method + request.target + *body + std::string(request.headers.get("Host")));
  });
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(
        text(send({.method = "POST", .target = "/x?y", .headers = {}, .body = "hi", .stream = {}, .timeouts = {}})),
        "POST/x?yhi" + address.to_string());
  }
  EXPECT_EQ(server.open_connections(), 1u);
}

TEST_F(ClientTest, StreamsBodiesWithAndWithoutALength) {
  serve([](Request& request) -> net::awaitable<Response> {
    auto body = co_await request.body->read_all(1 << 20);
    co_return text_response(200,
                            std::to_string(body->size()) + " " + std::string(request.headers.get("Content-Length")));
  });
  ClientRequest chunked{.method = "PUT", .target = "/", .headers = {}, .body = {}, .stream = {}, .timeouts = {}};
  chunked.stream = std::make_shared<Pieces>(std::vector<std::string>{"abc", std::string(70'000, 'x'), "d"});
  EXPECT_EQ(text(send(std::move(chunked))), "70004 ");
  ClientRequest known{.method = "PUT", .target = "/", .headers = {}, .body = {}, .stream = {}, .timeouts = {}};
  known.stream = std::make_shared<Pieces>(std::vector<std::string>{"abc", "def"}, 6);
  EXPECT_EQ(text(send(std::move(known))), "6 6");
}

TEST_F(ClientTest, ABrokenBodySourceTruncatesTheRequest) {
  bool whole = true;
  serve([&](Request& request) -> net::awaitable<Response> {
    whole = (co_await request.body->read_all(100)).has_value();
    co_return text_response(200, "");
  });
  ClientRequest request{.method = "PUT", .target = "/", .headers = {}, .body = {}, .stream = {}, .timeouts = {}};
  request.stream = std::make_shared<Pieces>(std::vector<std::string>{"abc"}, std::nullopt, true);
  auto response = send(std::move(request));
  ASSERT_FALSE(response);
  EXPECT_TRUE(response.error().message.contains("source broke")) << response.error().message;
  io.poll();
  EXPECT_FALSE(whole);
}

TEST_F(ClientTest, AnAnswerBeforeTheRequestIsOverIsReturned) {
  serve([](Request&) -> net::awaitable<Response> {
    Response response = problem(413, "X", "too large");
    response.close = true;
    co_return response;
  });
  ClientRequest request{.method = "PUT", .target = "/", .headers = {}, .body = {}, .stream = {}, .timeouts = {}};
  request.stream = std::make_shared<Pieces>(std::vector<std::string>(100, std::string(100'000, 'x')));
  auto response = send(std::move(request));
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(response->status, 413);
}

TEST_F(ClientTest, AStaleConnectionIsReplaced) {
  ServerOptions options;
  options.limits.idle = Millis(1);
  Server& server = serve([](Request&) -> net::awaitable<Response> { co_return text_response(200, "ok"); }, options);
  EXPECT_EQ(text(send({})), "ok");
  while (server.open_connections() > 0) io.run_one();
  EXPECT_EQ(text(send({.method = "POST", .target = "/", .headers = {}, .body = "x", .stream = {}, .timeouts = {}})),
            "ok");
}

TEST_F(ClientTest, OriginsThatAreNotUsedAgainLeaveNothingBehind) {
  // Every origin is the same server.
  class Anywhere final : public Connector {
   public:
    explicit Anywhere(std::string to) : to_(std::move(to)) {}
    net::awaitable<Result<std::unique_ptr<Transport>>> connect(std::string,
                                                               std::chrono::milliseconds timeout) override {
      co_return co_await inner_->connect(to_, timeout);
    }

   private:
    std::string to_;
    std::unique_ptr<Connector> inner_ = make_plain_connector();
  };
  Server& server = serve([](Request&) -> net::awaitable<Response> { co_return text_response(200, "ok"); });
  Client forgetful(std::make_unique<Anywhere>(address.to_string()), {.idle_per_origin = 4, .idle = Millis(20)});
  for (int i = 0; i < 10; ++i) EXPECT_EQ(text(await(io, forgetful.send("gone-" + std::to_string(i), {}))), "ok");
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (server.open_connections() > 1 && std::chrono::steady_clock::now() < limit) {
    EXPECT_EQ(text(await(io, forgetful.send("used", {}))), "ok");
  }
  EXPECT_LE(server.open_connections(), 1u);
  forgetful.clear();
}

TEST_F(ClientTest, IdleConnectionsOfAllOriginsAreBounded) {
  std::vector<UniqueFd> peers;
  Client scripted(std::make_unique<Answered>(peers, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
                  {.idle_total = 3});
  for (const char* origin : {"a", "b", "c", "d", "e"}) EXPECT_EQ(text(await(io, scripted.send(origin, {}))), "ok");
  ASSERT_EQ(peers.size(), 5u);
  EXPECT_EQ(std::ranges::count_if(peers, hung_up), 2);
  EXPECT_FALSE(hung_up(peers.back()));
}

TEST_F(ClientTest, AConnectionThatWasResetIsNotUsedForWhatCannotBeRepeated) {
  std::vector<UniqueFd> peers;
  Client scripted(std::make_unique<Answered>(peers, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
  for (const std::size_t connections : {1, 2}) {
    ClientRequest request{.method = "POST", .target = "/", .headers = {}, .body = "x", .stream = {}, .timeouts = {}};
    EXPECT_EQ(text(await(io, scripted.send("x", std::move(request)))), "ok");
    EXPECT_EQ(peers.size(), connections);
    peers.back().reset();  // with the request unread: that is a reset
  }
}

constexpr const char* kSwitching =
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nbehind";

TEST_F(ClientTest, A101ThatWasAskedForHandsTheConnectionOver) {
  std::vector<UniqueFd> peers;
  Client scripted(std::make_unique<Answered>(peers, kSwitching));
  ClientRequest request;
  request.headers.set("Upgrade", "x");
  auto response = await(io, scripted.send("x", std::move(request)));
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(response->status, 101);
  EXPECT_TRUE(response->upgraded);
  EXPECT_EQ(response->buffered, "behind");
}

TEST_F(ClientTest, A101ThatWasNotAskedForIsAnError) {
  std::vector<UniqueFd> peers;
  Client scripted(std::make_unique<Answered>(peers, kSwitching));
  auto response = await(io, scripted.send("x", {}));
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Code::Unavailable);
  EXPECT_TRUE(response.error().message.contains("101")) << response.error().message;
  EXPECT_TRUE(hung_up(peers.back()));
}

TEST_F(ClientTest, A101InTheMiddleOfAnUploadIsAnErrorAndEndsTheUpload) {
  std::vector<UniqueFd> peers;
  Client scripted(std::make_unique<Answered>(peers, kSwitching));
  const auto silent = std::make_shared<Endless>();  // waits to read
  const auto large = std::make_shared<Pieces>(std::vector<std::string>(100, std::string(1 << 20, 'x')));  // to write
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd far_end(ends[1]);
  const auto asker = make_plain_transport(io.get_executor(), UniqueFd(ends[0]));
  for (int variant = 0; variant < 8; ++variant) {
    const bool asked = variant & 1, with_asker = variant & 2;
    const std::shared_ptr<BodySource> body = variant & 4 ? std::shared_ptr<BodySource>(silent) : large;
    ClientRequest request{.method = "POST", .target = "/", .headers = {}, .body = {}, .stream = body, .timeouts = {}};
    const long owners = body.use_count() - 1;
    if (asked) request.headers.set("Upgrade", "x");
    if (with_asker) request.asker = asker.get();
    auto response = await(io, scripted.send("x", std::move(request)));
    ASSERT_FALSE(response);
    EXPECT_TRUE(response.error().message.contains("101")) << response.error().message;
    // The client uses neither the body nor the connection any more; an asker may go on with the body at once.
    if (!with_asker) io.poll();
    EXPECT_EQ(silent->waiting, 0);
    EXPECT_EQ(body.use_count(), owners);
    EXPECT_TRUE(hung_up(peers.back()));
  }
}

TEST_F(ClientTest, APortWithoutAListenerIsUnavailable) {
  address = Address::tcp("127.0.0.1", 1);
  auto response = send({});
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Code::Unavailable);
  EXPECT_TRUE(response.error().message.contains("127.0.0.1:1")) << response.error().message;
}

TEST_F(ClientTest, ASlowHeadTimesOut) {
  net::steady_timer gate(io, net::steady_timer::time_point::max());
  serve([&](Request&) -> net::awaitable<Response> {
    boost::system::error_code ec;
    co_await gate.async_wait(net::redirect_error(net::use_awaitable, ec));
    co_return text_response(200, "");
  });
  ClientRequest request;
  request.timeouts.head = Millis(20);
  auto response = send(std::move(request));
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Code::Timeout);
  gate.cancel();
}

TEST_F(ClientTest, TruncatedAndOverlongAnswersAreErrors) {
  serve([](Request& request) -> net::awaitable<Response> {
    const bool chunked = request.target == "/chunked";
    Response response;
    response.body = StreamBody{.produce = [](BodyWriter& out) -> net::awaitable<Result<void>> {
                                 co_await out.write("abc");
                                 co_return fail(Code::Internal, "broke");
                               },
                               .length = chunked ? std::nullopt : std::optional<std::uint64_t>(10)};
    co_return response;
  });
  for (const char* target : {"/chunked", "/length"}) {
    ClientRequest request;
    request.target = target;
    EXPECT_TRUE(text(send(std::move(request))).starts_with("error: ")) << target;
  }
}

TEST_F(ClientTest, DroppingAResponseClosesItsConnection) {
  Server& server = serve([](Request&) -> net::awaitable<Response> {
    co_return event_stream([](BodyWriter& out) -> net::awaitable<Result<void>> {
      for (;;) {
        if (auto sent = co_await out.write(std::string(1000, 'x')); !sent) co_return sent;
      }
    });
  });
  {
    auto response = send({});
    ASSERT_TRUE(response);
  }
  while (server.open_connections() > 0) io.run_one();
}

}  // namespace
}  // namespace osb::http
