#include "http/websocket.h"

#include <optional>
#include <sys/socket.h>
#include <vector>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "async/race.h"
#include "http/websocket_frame.h"
#include "http/websocket_key.h"
#include "support/await.h"

namespace osb::http {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

constexpr ws::Mask kMask{'a', 'b', 'c', 'd'};

std::string client_frame(ws::Opcode opcode, std::string payload) {
  std::string out(ws::FrameHead(opcode, payload.size(), &kMask).view());
  ws::apply_mask(payload.data(), payload.size(), kMask, 0);
  return out + payload;
}

std::string server_frame(ws::Opcode opcode, std::string_view payload) {
  return std::string(ws::FrameHead(opcode, payload.size(), nullptr).view()) += payload;
}

Request upgrade_request() {
  Request request;
  request.method = "GET";
  request.target = "/pty";
  request.headers = {{"Host", "x"},
                     {"Upgrade", "websocket"},
                     {"Connection", "keep-alive, Upgrade"},
                     {"Sec-WebSocket-Version", "13"},
                     {"Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="}};
  return request;
}

using SocketHandler = std::move_only_function<net::awaitable<void>(WebSocket&)>;

// A server side that runs `run`, and the other end of its socket.
class WebSocketTest : public ::testing::Test {
 protected:
  // Short enough for tests; where time does not matter nothing comes near them.
  static WebSocket::Options patient() { return {.ping_interval = 0ms, .read_timeout = 30s, .write_timeout = 30s}; }

  void make_sockets() {
    int fds[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    ours_ = make_plain_transport(io_.get_executor(), UniqueFd(fds[0]));
    theirs_ = make_plain_transport(io_.get_executor(), UniqueFd(fds[1]));
  }

  // Starts the server side, and ends its socket when it is over, as a session does.
  void serve(SocketHandler run, WebSocket::Options options = patient(), std::string buffered = {}) {
    make_sockets();
    Response response = websocket_response(upgrade_request(), options, std::move(run));
    ASSERT_EQ(response.status, 101);
    handler_ = std::move(std::get<UpgradeHandler>(response.body));
    net::co_spawn(io_, session(std::move(ours_), std::move(buffered)),
                  net::bind_cancellation_slot(stop_.slot(), [this](std::exception_ptr e) {
                    over_ = true;
                    thrown_ = e;
                  }));
  }

  net::awaitable<void> session(std::unique_ptr<Transport> transport, std::string buffered) {
    co_await handler_(*transport, std::move(buffered));
  }

  // A client of ours on the other end: skips the handshake's server side by answering it by hand.
  std::unique_ptr<WebSocket> connect(SocketHandler run, WebSocket::Options server = patient(),
                                     WebSocket::Options client = patient()) {
    make_sockets();
    net::co_spawn(io_, answer_handshake(std::move(ours_), std::move(run), server),
                  net::bind_cancellation_slot(stop_.slot(), [this](std::exception_ptr e) {
                    over_ = true;
                    thrown_ = e;
                  }));
    auto made = testing::await(io_, websocket_connect(std::move(theirs_), "box:1", "/pty?x=1", {}, client));
    EXPECT_TRUE(made) << made.error().message;
    return made ? std::move(*made) : nullptr;
  }

  net::awaitable<void> answer_handshake(std::unique_ptr<Transport> transport, SocketHandler run,
                                        WebSocket::Options options) {
    std::string head(4096, '\0');
    const auto got = co_await transport->read_some(head);
    head.resize(got.value_or(0));
    const auto key = head.find("Sec-WebSocket-Key: ");
    Request request = upgrade_request();
    request.headers.set("Sec-WebSocket-Key", head.substr(key + 19, 24));
    Response response = websocket_response(request, options, std::move(run));
    std::string answer = "HTTP/1.1 101 Switching Protocols\r\n";
    for (const auto& [name, value] : response.headers) answer += name + ": " + value + "\r\n";
    co_await transport->write_all(answer + "\r\n");
    co_await std::get<UpgradeHandler>(response.body)(*transport, {});
  }

  void send_raw(const std::string& bytes) {
    const auto sent = testing::await(io_, theirs_->write_all(bytes));
    ASSERT_TRUE(sent) << sent.error().message;
  }
  std::string read_raw(std::size_t size) {
    std::string out;
    while (out.size() < size) {
      char buffer[4096];
      const auto got = testing::await(io_, theirs_->read_some({buffer, std::min(sizeof buffer, size - out.size())}));
      if (!got || *got == 0) break;
      out.append(buffer, *got);
    }
    return out;
  }
  std::string read_raw_to_end() { return read_raw(std::string::npos); }

  void run_until_over() {
    io_.restart();
    while (!over_ && io_.run_one() > 0) {
    }
    ASSERT_TRUE(over_);
  }

  net::io_context io_{1};
  net::cancellation_signal stop_;
  std::unique_ptr<Transport> ours_, theirs_;
  UpgradeHandler handler_;
  bool over_ = false;
  std::exception_ptr thrown_;
};

net::awaitable<void> echo(WebSocket& socket) {
  for (;;) {
    auto message = co_await socket.read();
    if (!message) co_return;
    auto sent = message->text ? co_await socket.send_text(message->data) : co_await socket.send_binary(message->data);
    if (!sent) co_return;
  }
}

TEST_F(WebSocketTest, MessagesOfAllSizesComeBack) {
  using namespace race;
  auto client = connect(echo);
  testing::await(io_, [](WebSocket& socket) -> net::awaitable<void> {
    for (const std::size_t size : {0, 1, 125, 126, 65535, 65536, 70001, 3'000'000}) {
      std::string sent(size, '\0');
      for (std::size_t i = 0; i < size; ++i) sent[i] = static_cast<char>(i * 31 >> 3);
      // Sent while the echo is read, or two full sockets would wait for each other.
      const auto [outcome, got] = co_await (socket.send_binary(sent) && socket.read());
      EXPECT_TRUE(got) << size;
      if (!got) co_return;
      EXPECT_FALSE(got->text);
      EXPECT_TRUE(got->data == sent) << size;
      EXPECT_TRUE(outcome) << size;
    }
    EXPECT_TRUE(co_await socket.send_text("gr\xC3\xBC\xC3\x9F"));
    const auto text = co_await socket.read();
    EXPECT_TRUE(text && text->text && text->data == "gr\xC3\xBC\xC3\x9F");
    co_await socket.close(1000, "");
  }(*client));
  EXPECT_EQ(client->close_code(), 1000);
  run_until_over();
}

TEST_F(WebSocketTest, CloseCodeAndReasonReachTheOtherSide) {
  std::uint16_t seen = 0;
  std::string reason, error;
  Code code{};
  auto client = connect([&](WebSocket& socket) -> net::awaitable<void> {
    const auto message = co_await socket.read();
    EXPECT_FALSE(message);
    seen = socket.close_code();
    reason = socket.close_reason();
    code = message.error().code;
    error = message.error().message;
    EXPECT_FALSE(co_await socket.send_text("too late"));
  });
  testing::await(io_, client->close(4001, "taken over"));
  run_until_over();
  EXPECT_EQ(seen, 4001);
  EXPECT_EQ(reason, "taken over");
  EXPECT_EQ(code, Code::Cancelled);
  EXPECT_THAT(error, HasSubstr("4001 (taken over)"));
  EXPECT_EQ(client->close_code(), 4001);  // echoed
}

TEST_F(WebSocketTest, ServerClosesWithItsOwnCode) {
  auto client = connect([](WebSocket& socket) -> net::awaitable<void> { co_await socket.close(4002, "replaced"); });
  const auto message = testing::await(io_, client->read());
  EXPECT_FALSE(message);
  EXPECT_EQ(client->close_code(), 4002);
  EXPECT_EQ(client->close_reason(), "replaced");
  run_until_over();
}

TEST_F(WebSocketTest, CloseEndsAReaderThatIsWaiting) {
  std::optional<std::uint16_t> code;
  auto client = connect(echo);
  net::co_spawn(io_, client->read(), [&](std::exception_ptr, Result<WebSocket::Message> got) {
    EXPECT_FALSE(got);
    code = client->close_code();
  });
  testing::await(io_, client->close(1000, ""));
  run_until_over();
  EXPECT_EQ(code, 1000);
}

TEST_F(WebSocketTest, HandlerThatReturnsOrThrowsStillSaysGoodbye) {
  serve([](WebSocket&) -> net::awaitable<void> { co_return; });
  EXPECT_EQ(read_raw(4), server_frame(ws::Opcode::Close, ws::close_payload(1000, "")));
  send_raw(client_frame(ws::Opcode::Close, ws::close_payload(1000, "")));
  run_until_over();
  over_ = false;
  serve([](WebSocket&) -> net::awaitable<void> {
    throw std::runtime_error("bug");
    co_return;
  });
  EXPECT_EQ(read_raw(4), server_frame(ws::Opcode::Close, ws::close_payload(1011, "")));
  theirs_->close();
  run_until_over();
  EXPECT_TRUE(thrown_);
}

TEST_F(WebSocketTest, BytesBehindTheRequestAreHonoured) {
  const std::string frames = client_frame(ws::Opcode::Text, "one") + client_frame(ws::Opcode::Text, "two") +
                             client_frame(ws::Opcode::Text, "3");
  serve(echo, patient(), frames.substr(0, frames.size() - 4));
  EXPECT_EQ(read_raw(10), server_frame(ws::Opcode::Text, "one") + server_frame(ws::Opcode::Text, "two"));
  send_raw(frames.substr(frames.size() - 4));
  EXPECT_EQ(read_raw(3), server_frame(ws::Opcode::Text, "3"));
  theirs_->close();
  run_until_over();
}

TEST_F(WebSocketTest, ViolationsAreAnsweredWithTheirCode) {
  const struct {
    const char* why;
    std::string bytes;
    std::uint16_t code;
    Code error;
  } rows[] = {
      {"unmasked", server_frame(ws::Opcode::Text, "hi"), 1002, Code::InvalidRequest},
      {"not UTF-8", client_frame(ws::Opcode::Text, "\xFF\xFE"), 1007, Code::InvalidRequest},
      // The peer goes on sending after our close: it must still be able to read it.
      {"too big", client_frame(ws::Opcode::Binary, std::string(3'000'000, 'x')), 1009, Code::TooLarge},
  };
  for (const auto& row : rows) {
    over_ = false;
    std::optional<Error> error;
    auto options = patient();
    options.max_message_bytes = 1000;
    serve(
        [&](WebSocket& socket) -> net::awaitable<void> {
          const auto message = co_await socket.read();
          if (!message) error = message.error();
          EXPECT_FALSE(co_await socket.read()) << "the violation stays";
        },
        options);
    send_raw(row.bytes);
    theirs_->shutdown_write();
    const std::string answer = read_raw_to_end();
    ASSERT_GE(answer.size(), 4U) << row.why;
    EXPECT_EQ(static_cast<unsigned char>(answer[0]), 0x88) << row.why;
    EXPECT_EQ(static_cast<unsigned char>(answer[2]) << 8 | static_cast<unsigned char>(answer[3]), row.code) << row.why;
    run_until_over();
    ASSERT_TRUE(error) << row.why;
    EXPECT_EQ(error->code, row.error) << row.why;
  }
}

TEST_F(WebSocketTest, PingsAreAnsweredBetweenFragments) {
  serve(echo);
  std::string first = client_frame(ws::Opcode::Text, "Hel");
  first[0] = 0x01;
  send_raw(first + client_frame(ws::Opcode::Ping, "you?"));
  EXPECT_EQ(read_raw(6), server_frame(ws::Opcode::Pong, "you?"));
  send_raw(client_frame(ws::Opcode::Continuation, "lo"));
  EXPECT_EQ(read_raw(7), server_frame(ws::Opcode::Text, "Hello"));
  theirs_->close();
  run_until_over();
}

TEST_F(WebSocketTest, PeerThatLeavesWithoutCloseFrameIs1006) {
  std::optional<Error> error;
  std::uint16_t code = 0;
  serve([&](WebSocket& socket) -> net::awaitable<void> {
    const auto message = co_await socket.read();
    if (!message) error = message.error();
    code = socket.close_code();
  });
  send_raw(client_frame(ws::Opcode::Text, "half").substr(0, 7));
  theirs_->close();
  run_until_over();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, Code::Cancelled);
  EXPECT_EQ(code, 1006);
}

TEST_F(WebSocketTest, SilentPeerIsDropped) {
  std::optional<Error> error;
  serve(
      [&](WebSocket& socket) -> net::awaitable<void> {
        const auto message = co_await socket.read();
        if (!message) error = message.error();
      },
      {.ping_interval = 20ms, .read_timeout = 50ms, .write_timeout = 30s});
  run_until_over();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, Code::Timeout);
}

TEST_F(WebSocketTest, APeerThatIsGoneIsNoticedWithoutAReader) {
  bool noticed = false;
  serve(
      [&](WebSocket& socket) -> net::awaitable<void> {
        co_await socket.closed();
        noticed = true;
      },
      {.ping_interval = 5ms, .read_timeout = 30s, .write_timeout = 30s});
  ASSERT_EQ(read_raw(2), server_frame(ws::Opcode::Ping, ""));
  EXPECT_FALSE(noticed);
  theirs_->close();
  run_until_over();
  EXPECT_TRUE(noticed);
}

// A machine that stands still for longer than the timeout ends the connection too. Then a longer timeout is tried.
TEST_F(WebSocketTest, PongsKeepAConnectionAlive) {
  std::optional<std::string> got;
  for (auto timeout = 600ms; !got && timeout < 10s; timeout *= 2) {
    over_ = false;
    serve(
        [&](WebSocket& socket) -> net::awaitable<void> {
          const auto message = co_await socket.read();
          if (message) got = message->data;
        },
        {.ping_interval = 50ms, .read_timeout = timeout, .write_timeout = 30s});
    const auto send = [&](const std::string& bytes) {
      return testing::await(io_, theirs_->write_all(bytes)).has_value();
    };
    bool alive = true;
    for (auto passed = 0ms; alive && passed < timeout + 200ms; passed += 50ms) {  // longer than the read timeout
      alive = read_raw(2) == server_frame(ws::Opcode::Ping, "") && send(client_frame(ws::Opcode::Pong, ""));
    }
    if (alive && send(client_frame(ws::Opcode::Text, "still here"))) EXPECT_EQ(read_raw(2).substr(0, 1), "\x88");
    theirs_->close();
    run_until_over();
  }
  EXPECT_EQ(got, "still here");
}

TEST_F(WebSocketTest, PeerThatDoesNotReadIsDropped) {
  std::optional<Error> error;
  const std::string big(4'000'000, 'x');
  serve(
      [&](WebSocket& socket) -> net::awaitable<void> {
        const auto sent = co_await socket.send_binary(big);
        if (!sent) error = sent.error();
      },
      {.ping_interval = 0ms, .read_timeout = 30s, .write_timeout = 50ms});
  run_until_over();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, Code::Timeout);
}

TEST_F(WebSocketTest, AFloodOfPingsIsAnsweredByFewPongs) {
  serve(echo);
  constexpr std::size_t kPings = 50'000;
  std::string pings;
  for (std::size_t i = 0; i < kPings; ++i) pings += client_frame(ws::Opcode::Ping, "?");
  send_raw(pings + client_frame(ws::Opcode::Text, "done"));
  std::size_t pongs = 0;
  std::string head;
  while ((head = read_raw(2)) == server_frame(ws::Opcode::Pong, "?").substr(0, 2)) {
    ++pongs;
    read_raw(1);
  }
  EXPECT_EQ(head + read_raw(4), server_frame(ws::Opcode::Text, "done"));
  EXPECT_GT(pongs, 0U);
  EXPECT_LT(pongs, kPings / 100);
  theirs_->close();
  run_until_over();
}

TEST_F(WebSocketTest, ConcurrentSendsStayWholeAndInOrder) {
  std::vector<std::string> messages;
  for (int i = 0; i < 12; ++i) messages.emplace_back(300'000, static_cast<char>('a' + i));
  int sent = 0;
  auto client = connect([&](WebSocket& socket) -> net::awaitable<void> {
    for (const std::string& message : messages) {
      net::co_spawn(co_await net::this_coro::executor, socket.send_text(message),
                    [&sent](std::exception_ptr e, Result<void> result) { sent += !e && result; });
    }
    co_await socket.read();  // until the client closes
  });
  for (const std::string& message : messages) {
    const auto got = testing::await(io_, client->read());
    ASSERT_TRUE(got);
    ASSERT_TRUE(got->data == message);
  }
  testing::await(io_, client->close(1000, ""));
  run_until_over();
  EXPECT_EQ(sent, 12);
}

TEST_F(WebSocketTest, CancelledReadLosesNothing) {
  const std::string frame = client_frame(ws::Opcode::Text, "in two parts");
  std::vector<std::string> events;
  net::cancellation_signal stop_reading;
  serve([&](WebSocket& socket) -> net::awaitable<void> {
    net::steady_timer ended(co_await net::this_coro::executor, std::chrono::steady_clock::time_point::max());
    net::co_spawn(
        co_await net::this_coro::executor, socket.read(),
        net::bind_cancellation_slot(stop_reading.slot(), [&](std::exception_ptr e, Result<WebSocket::Message> got) {
          ended.cancel();
          events.push_back(e || !got ? "cancelled" : got->data);
        }));
    co_await socket.send_text("go");
    co_await ended.async_wait(net::as_tuple(net::use_awaitable));
    co_await socket.send_text("on");
    const auto rest = co_await socket.read();
    events.push_back(rest ? rest->data : rest.error().message);
  });
  EXPECT_EQ(read_raw(4), server_frame(ws::Opcode::Text, "go"));
  send_raw(frame.substr(0, 9));
  io_.restart();
  io_.poll();
  stop_reading.emit(net::cancellation_type::terminal);
  EXPECT_EQ(read_raw(4), server_frame(ws::Opcode::Text, "on"));
  send_raw(frame.substr(9));
  EXPECT_EQ(read_raw(1), "\x88");
  theirs_->close();
  run_until_over();
  EXPECT_THAT(events, ::testing::ElementsAre("cancelled", "in two parts"));
}

TEST_F(WebSocketTest, SendCancelledHalfWayBreaksTheConnection) {
  const std::string big(4'000'000, 'x');  // the peer does not read it, so the socket fills up
  net::cancellation_signal stop_sending;
  bool ended = false;
  serve([&](WebSocket& socket) -> net::awaitable<void> {
    net::co_spawn(co_await net::this_coro::executor, socket.send_binary(big),
                  net::bind_cancellation_slot(stop_sending.slot(), [&](std::exception_ptr e, Result<void> sent) {
                    EXPECT_TRUE(e || !sent);
                    ended = true;
                  }));
    EXPECT_FALSE(co_await socket.read());
    EXPECT_FALSE(co_await socket.send_text("no"));
  });
  EXPECT_EQ(read_raw(1), "\x82");
  stop_sending.emit(net::cancellation_type::terminal);
  run_until_over();
  EXPECT_TRUE(ended);
}

TEST_F(WebSocketTest, CancelledHandlerClosesAtOnce) {
  serve(echo);
  send_raw(client_frame(ws::Opcode::Text, "hi"));
  EXPECT_EQ(read_raw(4), server_frame(ws::Opcode::Text, "hi"));
  stop_.emit(net::cancellation_type::terminal);
  run_until_over();
  EXPECT_EQ(read_raw_to_end(), server_frame(ws::Opcode::Close, ws::close_payload(1001, "")));
}

TEST_F(WebSocketTest, HandlerMayLeaveOperationsBehind) {
  bool ended = false;
  serve([&](WebSocket& socket) -> net::awaitable<void> {
    net::co_spawn(co_await net::this_coro::executor, socket.read(),
                  [&](std::exception_ptr, Result<WebSocket::Message> got) {
                    EXPECT_FALSE(got);
                    ended = true;
                  });
    co_await socket.send_text("bye");
  });
  EXPECT_EQ(read_raw(5), server_frame(ws::Opcode::Text, "bye"));
  theirs_->close();
  run_until_over();
  EXPECT_TRUE(ended);
}

TEST_F(WebSocketTest, DestroyingAClientEndsItsReader) {
  auto client = connect(echo);
  std::optional<Error> error;
  net::co_spawn(io_, client->read(), [&](std::exception_ptr, Result<WebSocket::Message> got) {
    if (!got) error = got.error();
  });
  io_.restart();
  io_.poll();
  client.reset();
  run_until_over();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, Code::Cancelled);
}

TEST_F(WebSocketTest, LoopMayEndUnderAConnection) {
  auto client = connect(echo, {}, {});
  net::co_spawn(io_, client->read(), [](std::exception_ptr, Result<WebSocket::Message>) {});
  io_.restart();
  io_.poll();
  // The fixture goes now: sanitizers tell whether frames, sockets and timers went in a good order.
}

TEST(WebSocketHandshake, OnlyProperRequestsAreUpgrades) {
  const auto status_without = [](const char* header, const char* value = nullptr) {
    Request request = upgrade_request();
    request.headers.remove(header);
    if (value != nullptr) request.headers.add(header, value);
    const Response response =
        websocket_response(request, {}, [](WebSocket&) -> net::awaitable<void> { co_return; }, "");
    EXPECT_EQ(is_websocket_upgrade(request), response.status == 101) << header;
    if (response.status == 426) EXPECT_EQ(response.headers.get("Sec-WebSocket-Version"), "13");
    return response.status;
  };
  EXPECT_EQ(status_without("X-None"), 101);
  EXPECT_EQ(status_without("Upgrade"), 400);
  EXPECT_EQ(status_without("Connection"), 400);
  EXPECT_EQ(status_without("Sec-WebSocket-Key"), 400);
  EXPECT_EQ(status_without("Sec-WebSocket-Key", "short"), 400);
  EXPECT_EQ(status_without("Sec-WebSocket-Version", "8"), 426);
  Request post = upgrade_request();
  post.method = "POST";
  EXPECT_FALSE(is_websocket_upgrade(post));
}

TEST(WebSocketHandshake, SubprotocolIsChosenOnlyIfOffered) {
  Request request = upgrade_request();
  const auto chosen = [&] {
    return std::string(websocket_response(
                           request, {}, [](WebSocket&) -> net::awaitable<void> { co_return; }, "osb.pty")
                           .headers.get("Sec-WebSocket-Protocol"));
  };
  EXPECT_EQ(chosen(), "");
  request.headers.add("Sec-WebSocket-Protocol", "other, osb.pty");
  EXPECT_EQ(chosen(), "osb.pty");
}

// The result of a client's handshake with this answer.
Result<std::unique_ptr<WebSocket>> handshake_with(const std::string& answer, Headers extra = {}) {
  net::io_context io(1);
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) return fail(Code::Internal, "socketpair");
  UniqueFd server(fds[1]);
  if (::write(server.get(), answer.data(), answer.size()) < 0) return fail(Code::Internal, "write");
  ::shutdown(server.get(), SHUT_WR);
  auto got = testing::await(io, websocket_connect(make_plain_transport(io.get_executor(), UniqueFd(fds[0])), "box:1",
                                                  "/pty", std::move(extra), {}));
  if (got) got->reset();  // before its loop
  return got;
}

TEST(WebSocketHandshake, ClientTellsWhyItWasRefused) {
  const auto refused = handshake_with("HTTP/1.1 404 Not Found\r\nContent-Length: 11\r\n\r\nno such pty");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::NotFound);
  EXPECT_THAT(refused.error().message, HasSubstr("box:1"));
  EXPECT_THAT(refused.error().message, HasSubstr("404: no such pty"));

  const auto wrong = handshake_with(
      "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
      "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n");
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message, HasSubstr("not for this handshake"));

  const auto gone = handshake_with("HTTP/1.1 101 Swi");
  ASSERT_FALSE(gone);
  EXPECT_THAT(gone.error().message, HasSubstr("left during the handshake"));

  const auto injected = handshake_with("", {{"X-A", "b\r\nX-Evil: 1"}});
  ASSERT_FALSE(injected);
  EXPECT_EQ(injected.error().code, Code::InvalidRequest);
}

}  // namespace
}  // namespace osb::http
