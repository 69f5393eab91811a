#include "async/race.h"
#include "async/timer.h"
#include "http/websocket.h"
#include "intercept/interceptor_fixture.h"

namespace osb::intercept {
namespace {

using namespace testing;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const std::string kHost = "api.example.com";

// Bodies and upgrades through an opened connection.
class Streaming : public InterceptorTest {
 protected:
  void open(http::Handler handler) {
    const Certificate certificate = certificate_for(kHost);
    serve(std::move(handler), &certificate);
    rules_.bound[kHost] = "Bearer " + std::string(kSecret);
    start();
  }
  // Reads until the text is there, or the stream ends.
  std::string read_until(http::Transport& from, std::string wanted) {
    return await(io_, [](http::Transport& t, std::string text) -> net::awaitable<std::string> {
      std::string out;
      std::vector<char> buffer(16 * 1024);
      while (!out.contains(text)) {
        auto got = co_await t.read_some(buffer);
        if (!got || *got == 0) break;
        out.append(buffer.data(), *got);
      }
      co_return out;
    }(from, std::move(wanted)));
  }
  void send(http::Transport& to, std::string text) {
    EXPECT_TRUE(await(io_, [](http::Transport& t, std::string s) -> net::awaitable<Result<void>> {
      co_return co_await t.write_all(s);
    }(to, std::move(text))));
  }
};

TEST_F(Streaming, EventsArriveOneByOne) {
  Event next(io_.get_executor());
  open([&](http::Request&) -> net::awaitable<http::Response> {
    co_return http::event_stream([&](http::BodyWriter& to) -> net::awaitable<Result<void>> {
      if (auto sent = co_await to.write("data: one\n\n"); !sent) co_return sent;
      (void)co_await next.wait();
      co_return co_await to.write("data: two\n\n");
    });
  });
  auto client = dial(kHost);
  send(*client, get(kHost));
  EXPECT_THAT(read_until(*client, "one"), AllOf(HasSubstr("text/event-stream"), Not(HasSubstr("two"))));
  next.set();
  EXPECT_THAT(read_until(*client, "two"), HasSubstr("data: two"));
}

TEST_F(Streaming, ALargeUploadAndItsEchoAreNotHeld) {
  open([](http::Request& request) -> net::awaitable<http::Response> {
    auto body = request.body;
    co_return stream([body](http::BodyWriter& to) -> net::awaitable<Result<void>> {
      for (;;) {
        auto piece = co_await body->read();
        if (!piece) co_return Failure(piece.error());
        if (piece->empty()) co_return Result<void>();
        if (auto sent = co_await to.write(*piece); !sent) co_return sent;
      }
    });
  });
  auto client = dial(kHost);
  constexpr std::size_t kSize = 16 << 20;
  const auto both = [&]() -> net::awaitable<std::size_t> {
    using namespace race;
    std::size_t got = 0;
    const auto write = [&]() -> net::awaitable<void> {
      const std::string piece(64 * 1024, 'x');
      (void)co_await client->write_all("POST / HTTP/1.1\r\nHost: " + kHost +
                                       "\r\nConnection: close\r\nContent-Length: " + std::to_string(kSize) +
                                       "\r\n\r\n");
      for (std::size_t sent = 0; sent < kSize; sent += piece.size()) {
        if (!co_await client->write_all(piece)) co_return;
      }
    };
    const auto read = [&]() -> net::awaitable<void> {
      std::vector<char> buffer(64 * 1024);
      for (;;) {
        auto n = co_await client->read_some(buffer);
        if (!n || *n == 0) co_return;
        got +=
            static_cast<std::size_t>(std::count(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(*n), 'x'));
      }
    };
    co_await (write() && read());
    co_return got;
  };
  EXPECT_EQ(await(io_, both()), kSize);
}

TEST_F(Streaming, ExpectContinueIsAnsweredBeforeTheBodyIsSent) {
  open([](http::Request& request) -> net::awaitable<http::Response> {
    EXPECT_FALSE(request.headers.contains("Expect"));
    const auto body = co_await request.body->read_all(100);
    co_return http::text_response(200, "got " + body.value_or("nothing"));
  });
  auto client = dial(kHost);
  send(*client, "PUT / HTTP/1.1\r\nHost: " + kHost +
                    "\r\nExpect: 100-continue\r\nContent-Length: 4\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(read_until(*client, "\r\n\r\n"), StartsWith("HTTP/1.1 100"));
  EXPECT_THAT(talk(*client, "body"), AllOf(StartsWith("HTTP/1.1 200"), EndsWith("got body")));
}

TEST_F(Streaming, WebSocketsPassInBothDirections) {
  open([](http::Request& request) -> net::awaitable<http::Response> {
    EXPECT_EQ(request.headers.get("Authorization"), "Bearer " + std::string(kSecret));
    co_return http::websocket_response(request, {}, [](http::WebSocket& socket) -> net::awaitable<void> {
      while (auto message = co_await socket.read()) {
        if (!co_await socket.send_text("echo " + message->data)) co_return;
      }
    });
  });
  auto transport = dial(kHost);
  const auto talk_through = [&]() -> net::awaitable<std::string> {
    auto socket = co_await http::websocket_connect(std::move(transport), kHost, "/", {}, {});
    if (!socket) co_return socket.error().message;
    (void)co_await (*socket)->send_text("hello");
    auto answer = co_await (*socket)->read();
    co_await (*socket)->close(1000, "");
    co_return answer ? answer->data : answer.error().message;
  };
  EXPECT_EQ(await(io_, talk_through()), "echo hello");
}

// Behind another protocol, requests would not be judged and answers not be cleaned.
TEST_F(Streaming, OtherUpgradesAreNotAskedFor) {
  open([](http::Request& request) -> net::awaitable<http::Response> {
    co_return http::text_response(200, "upgrade: [" + std::string(request.headers.get("Upgrade")) + "]");
  });
  for (const char* protocol : {"h2c", "websocket, h2c", "tls/1.3"}) {
    EXPECT_THAT(ask(kHost, "GET / HTTP/1.1\r\nHost: " + kHost + "\r\nConnection: close, Upgrade, HTTP2-Settings\r\n" +
                               "HTTP2-Settings: AAMAAABk\r\nUpgrade: " + protocol + "\r\n\r\n"),
                AllOf(StartsWith("HTTP/1.1 200"), EndsWith("upgrade: []")))
        << protocol;
  }
}

TEST_F(Streaming, SecretsInBodiesAreScrubbedWhereThatIsWanted) {
  rules_.scrub_bodies = true;
  open([](http::Request& request) -> net::awaitable<http::Response> {
    EXPECT_EQ(request.headers.get("Accept-Encoding"), "identity");
    const std::string text = "<" + std::string(request.headers.get("Authorization")) + ">";
    if (request.target == "/whole") co_return http::text_response(200, text);
    if (request.target == "/zipped") {
      auto response = http::text_response(200, text);
      response.headers.add("Content-Encoding", "gzip");
      co_return response;
    }
    co_return stream([text](http::BodyWriter& to) -> net::awaitable<Result<void>> {
      for (const char c : text) {
        if (auto sent = co_await to.write(std::string_view(&c, 1)); !sent) co_return sent;
      }
      co_return Result<void>();
    });
  });
  for (const char* path : {"/whole", "/pieces"}) {
    const std::string answer = ask(kHost, "GET " + std::string(path) + " HTTP/1.1\r\nHost: " + kHost +
                                              "\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n");
    EXPECT_THAT(answer, AllOf(StartsWith("HTTP/1.1 200"), Not(HasSubstr(std::string(kSecret))))) << path;
    if (path == std::string("/whole")) EXPECT_THAT(answer, HasSubstr("<Bearer [REDACTED]>"));
  }
  EXPECT_THAT(ask(kHost, "GET /zipped HTTP/1.1\r\nHost: " + kHost + "\r\nConnection: close\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 502"), HasSubstr("compressed"), Not(HasSubstr(std::string(kSecret)))));
}

TEST_F(InterceptorTest, AServerThatSpeaksFirstIsReached) {
  auto where = http::to_sockaddr(http::Address::tcp("127.0.0.1", 0));
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(listener.get(), where->get(), where->length), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  ASSERT_EQ(::getsockname(listener.get(), where->get(), &where->length), 0);
  destination_.port = ntohs(reinterpret_cast<sockaddr_in*>(where->get())->sin_port);
  start({.patience = 1ms});
  auto client = dial("");
  // The connection waits in the listener's queue, and so does the greeting until it is accepted.
  const auto greet = [&]() -> net::awaitable<std::string> {
    http::Listener accepting(io_.get_executor(), UniqueFd(::dup(listener.get())));
    auto socket = co_await accepting.accept();
    if (!socket) co_return socket.error().message;
    auto server = http::make_plain_transport(io_.get_executor(), std::move(*socket));
    (void)co_await server->write_all("220 ready\r\n");
    server->shutdown_write();
    std::vector<char> buffer(100);
    auto got = co_await client->read_some(buffer);
    co_return got ? std::string(buffer.data(), *got) : got.error().message;
  };
  EXPECT_EQ(await(io_, greet()), "220 ready\r\n");
}

}  // namespace
}  // namespace osb::intercept
