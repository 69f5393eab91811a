#include "execd/pty/pty_service.h"

#include <fcntl.h>
#include <filesystem>
#include <signal.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include <boost/json.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "async/signals.h"
#include "execd/pty/pty_routes.h"
#include "http/http_fixture.h"
#include "http/router.h"
#include "http/websocket.h"
#include "support/temp_dir.h"

namespace osb::execd {
namespace {

using osb::testing::await;
using osb::testing::TempDir;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Socket = std::unique_ptr<http::WebSocket>;
namespace json = boost::json;

std::uint64_t offset_of(std::string_view frame) {
  std::uint64_t offset = 0;
  for (int i = 1; i <= 8; ++i) offset = offset << 8 | static_cast<unsigned char>(frame[i]);
  return offset;
}

// The routes on a real server, with WebSocket clients.
class PtyTest : public http::testing::HttpFixture {
 protected:
  explicit PtyTest(http::WebSocket::Options options = {}) {
    ignore_sigpipe();
    add_pty_routes(router, service, options);
    serve([this](http::Request& request) { return router.dispatch(request); });
  }
  ~PtyTest() override {
    await(io, service.shutdown());
    host.close();
    io.poll();
  }

  std::string create(const std::string& command = "", const std::string& cwd = "") {
    auto session = service.create({cwd, command});
    EXPECT_TRUE(session);
    return (*session)->id();
  }

  Socket open(const std::string& id, const std::string& query = "") {
    http::WebSocket::Options options;
    auto socket = await(io, http::websocket_connect(connect(), "localhost", "/pty/" + id + "/ws" + query, {}, options));
    EXPECT_TRUE(socket) << (socket ? "" : socket.error().message);
    return socket ? std::move(*socket) : nullptr;
  }

  http::WebSocket::Message next(http::WebSocket& socket) {
    auto message = await(io, socket.read());
    EXPECT_TRUE(message) << message.error().message;
    return message.value_or(http::WebSocket::Message{});
  }
  json::object next_text(http::WebSocket& socket) {
    const auto message = next(socket);
    EXPECT_TRUE(message.text);
    return json::parse(message.data).as_object();
  }
  void expect_connected(http::WebSocket& socket) { EXPECT_EQ(next_text(socket).at("type").as_string(), "connected"); }

  // Output frames until what came out contains `text`.
  std::string read_until(http::WebSocket& socket, std::string_view text, char tag = 1) {
    std::string all;
    while (!all.contains(text)) {
      auto message = await(io, socket.read());
      if (!message) {
        ADD_FAILURE() << message.error().message << " after " << all;
        break;
      }
      if (message->text || message->data.empty() || message->data[0] != tag) {
        ADD_FAILURE() << "unexpected frame " << message->data;
        break;
      }
      all += message->data.substr(1);
    }
    return all;
  }
  // All output up to the exit frame, whose code is returned.
  int read_to_exit(http::WebSocket& socket, std::string& out) {
    for (;;) {
      const auto message = await(io, socket.read());
      if (!message) {
        ADD_FAILURE() << message.error().message;
        return -99;
      }
      if (!message->text) {
        out += message->data.substr(1);
        continue;
      }
      const json::object frame = json::parse(message->data).as_object();
      EXPECT_EQ(frame.at("type").as_string(), "exit");
      return static_cast<int>(frame.at("exit_code").as_int64());
    }
  }
  void expect_closed(http::WebSocket& socket, std::uint16_t code, std::string_view reason) {
    EXPECT_FALSE(await(io, socket.read()));
    EXPECT_EQ(socket.close_code(), code);
    EXPECT_EQ(socket.close_reason(), reason);
  }
  void type(http::WebSocket& socket, std::string_view bytes) {
    EXPECT_TRUE(await(io, socket.send_binary(std::string(1, '\0') + std::string(bytes))));
  }
  void say(http::WebSocket& socket, std::string_view text) { EXPECT_TRUE(await(io, socket.send_text(text))); }

  std::string get(const std::string& target, const std::string& method = "GET") {
    return exchange(method + " " + target + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  }

  TempDir temp;
  ChildReaper reaper{io.get_executor()};
  BlockingPool pool{2};
  RunHost host{io.get_executor(), reaper, pool};
  CommandEnvironment environment{Environment{{"PATH", "/usr/bin:/bin"}, {"PS1", "$ "}}, temp.path().string()};
  PtyService service{host, environment};
  http::Router router;
};

class PingingPtyTest : public PtyTest {
 protected:
  PingingPtyTest() : PtyTest({.ping_interval = Millis(20)}) {}
};

TEST_F(PingingPtyTest, AClientThatLeavesIsNoticedWhileTheShellTakesNoInput) {
  const std::string id = create("exec sleep 1000");
  Socket client = open(id, "?pty=0");
  expect_connected(*client);
  // One message that the pipe does not hold, and one behind it that is more than may wait.
  for (int i = 0; i < 2; ++i) type(*client, std::string(2 << 20, 'x'));
  const auto session = service.find(id);
  while (session->input_offset() < 4 << 20) io.run_one();
  client.reset();
  while (session->held()) io.run_one();
  const Socket again = open(id);
  EXPECT_TRUE(await(io, again->read()));
}

TEST_F(PtyTest, AProgramGetsTheUserAndTheVariablesThatTheRequestNames) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  api::CreatePty request{.cwd = "/", .command = "id -un; echo $X; [ -w $(tty) ] && echo own", .user = "nobody"};
  request.envs["X"] = "a b";
  const auto session = service.create(request);
  ASSERT_TRUE(session) << session.error().message;
  const Socket socket = open((*session)->id());
  expect_connected(*socket);
  std::string out;
  EXPECT_EQ(read_to_exit(*socket, out), 0);
  EXPECT_EQ(out, "nobody\r\na b\r\nown\r\n");
  request.user = "no-such-user";
  EXPECT_THAT(service.create(request).error().message, HasSubstr("not in /etc/passwd"));
}

TEST_F(PtyTest, AShellStartsWithTheFirstConnection) {
  const std::string cwd = (temp.path() / "a" / "b").string();
  const std::string id = create("", cwd);
  EXPECT_TRUE(std::filesystem::is_directory(cwd));
  EXPECT_THAT(get("/pty/" + id), HasSubstr(R"("running":false,"output_offset":0)"));
  const Socket socket = open(id);
  const json::object connected = next_text(*socket);
  EXPECT_EQ(connected.at("session_id").as_string(), id);
  EXPECT_EQ(connected.at("mode").as_string(), "pty");
  type(*socket, "stty size; tty >/dev/null && echo is a $((1+1)); pwd\n");
  read_until(*socket, "24 80\r\nis a 2\r\n" + cwd);
  EXPECT_THAT(get("/pty/" + id), HasSubstr(R"("running":true)"));
  say(*socket, R"({"type":"stdin","data":"exit 3\n"})");
  std::string rest;
  EXPECT_EQ(read_to_exit(*socket, rest), 3);
  expect_closed(*socket, 1000, "process exited");
  EXPECT_THAT(get("/pty/" + id), HasSubstr(R"("running":false)"));
}

TEST_F(PtyTest, AllOutputComesBeforeTheExitFrame) {
  const std::string id = create("for ((i = 0; i < 20000; i++)); do echo line $i; done; echo last; exit 7");
  for (int round = 0; round < 3; ++round) {
    const Socket socket = open(id, "?since=99999999");
    expect_connected(*socket);
    std::string out;
    EXPECT_EQ(read_to_exit(*socket, out), 7);
    EXPECT_TRUE(out.starts_with("line 0\r\n"));
    EXPECT_TRUE(out.ends_with("line 19999\r\nlast\r\n"));
    EXPECT_EQ(std::ranges::count(out, '\n'), 20001);
  }
}

TEST_F(PtyTest, AReconnectReplaysFromAnOffsetWithoutLossOrRepetition) {
  const std::string id = create("echo 0123456789; read x; echo got $x; read x");
  {
    const Socket socket = open(id);
    expect_connected(*socket);
    read_until(*socket, "0123456789\r\n");
    await(io, socket->close(1000, ""));
  }
  {
    const Socket socket = open(id, "?since=4");
    const auto replay = next(*socket);
    ASSERT_FALSE(replay.text);
    EXPECT_EQ(replay.data[0], 3);
    EXPECT_EQ(offset_of(replay.data), 4U);
    EXPECT_EQ(replay.data.substr(9), "456789\r\n");
    expect_connected(*socket);
    type(*socket, "me\n");
    EXPECT_EQ(read_until(*socket, "got me\r\n"), "me\r\ngot me\r\n");
    await(io, socket->close(1000, ""));
  }
  const std::string whole = "0123456789\r\nme\r\ngot me\r\n";
  EXPECT_THAT(get("/pty/" + id), HasSubstr("\"output_offset\":" + std::to_string(whole.size())));
  {
    const Socket socket = open(id);
    EXPECT_EQ(next(*socket).data.substr(9), whole);
    await(io, socket->close(1000, ""));
  }
  const Socket at_end = open(id, "?since=" + std::to_string(whole.size()));
  expect_connected(*at_end);
}

TEST_F(PtyTest, ASecondWriterIsRefusedAndMayTakeOver) {
  const std::string id = create();
  const Socket first = open(id);
  expect_connected(*first);
  type(*first, "X=kept\n");
  const std::string upgrade =
      " HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
      "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
  auto refused = connect();
  send(*refused, "GET /pty/" + id + "/ws" + upgrade);
  EXPECT_THAT(HttpFixture::read_until(*refused, "}"),
              ::testing::AllOf(StartsWith("HTTP/1.1 409"), HasSubstr("ALREADY_CONNECTED")));
  EXPECT_THAT(get("/pty/" + id + "/ws?takeover=1"), StartsWith("HTTP/1.1 409"));

  const Socket second = open(id, "?takeover=1&since=999999");
  expect_connected(*second);
  while (await(io, first->read())) {
  }
  EXPECT_EQ(first->close_code(), 4001);
  EXPECT_EQ(first->close_reason(), "TAKEN_OVER");
  type(*second, "echo $X-$X\n");
  read_until(*second, "kept-kept\r\n");
}

TEST_F(PtyTest, ViewersSeeEverythingAndChangeNothing) {
  const std::string id = create("read x; echo got $x; read x");
  const Socket before = open(id, "?readonly=1");
  EXPECT_TRUE(next_text(*before).at("readonly").as_bool());
  EXPECT_THAT(get("/pty/" + id), HasSubstr(R"("running":false)"));
  const Socket holder = open(id);
  expect_connected(*holder);
  const Socket after = open(id, "?readonly=1");
  expect_connected(*after);
  type(*before, "viewer\n");
  say(*before, R"({"type":"signal","signal":"SIGKILL"})");
  say(*before, R"({"type":"ping"})");
  EXPECT_EQ(next_text(*before).at("type").as_string(), "pong");
  type(*holder, "me\n");
  for (const Socket* socket : {&before, &holder, &after}) {
    EXPECT_EQ(read_until(**socket, "got me\r\n"), "me\r\ngot me\r\n");
  }
  say(*holder, R"({"type":"signal","signal":"SIGKILL"})");
  for (const Socket* socket : {&before, &holder, &after}) {
    std::string rest;
    EXPECT_EQ(read_to_exit(**socket, rest), -1);
    expect_closed(**socket, 1000, "process exited");
  }
}

TEST_F(PtyTest, ResizeSignalsAndBadFrames) {
  const std::string id =
      create("trap 'echo winch' WINCH; trap 'echo int' INT; echo ready; while :; do read x && stty size; done");
  const Socket socket = open(id);
  expect_connected(*socket);
  read_until(*socket, "ready\r\n");
  say(*socket, R"({"type":"resize","cols":120,"rows":50})");
  type(*socket, "\n");
  read_until(*socket, "50 120\r\n");
  say(*socket, "not json");
  say(*socket, R"({"type":"signal","signal":"SIGNONE"})");
  say(*socket, R"({"type":"what"})");
  EXPECT_EQ(next_text(*socket).at("code").as_string(), "INVALID_FRAME");
  say(*socket, R"({"type":"signal","signal":"SIGINT"})");
  type(*socket, "\n");
  read_until(*socket, "int\r\n");
}

TEST_F(PtyTest, PipeModeKeepsTheStreamsApartAndDoesNotWaitForDescendants) {
  const std::string id = create("cat; echo err >&2; sleep 1000 & echo $!");
  const Socket socket = open(id, "?pty=0");
  EXPECT_EQ(next_text(*socket).at("mode").as_string(), "pipe");
  say(*socket, R"({"type":"resize","cols":120,"rows":50})");
  type(*socket, "in\n");
  EXPECT_EQ(read_until(*socket, "in\n"), "in\n");
  say(*socket, R"({"type":"ping"})");
  EXPECT_EQ(next_text(*socket).at("type").as_string(), "pong");
  EXPECT_THAT(get("/pty/" + id, "DELETE"), StartsWith("HTTP/1.1 200"));

  const std::string other = create("echo err >&2; sleep 1000 & echo $!");
  const Socket again = open(other, "?pty=0");
  expect_connected(*again);
  std::string out, errors;
  for (;;) {
    const auto message = next(*again);
    if (message.text) {
      EXPECT_EQ(message.data, R"({"type":"exit","exit_code":0})");
      break;
    }
    (message.data[0] == 2 ? errors : out) += message.data.substr(1);
  }
  EXPECT_EQ(errors, "err\n");
  EXPECT_EQ(::kill(std::stoi(out), SIGKILL), 0);
}

TEST_F(PtyTest, PipesEndTheirInputAndTellWhatWasTaken) {
  const std::string id = create("cat; echo behind");
  const Socket socket = open(id, "?pty=0&acks=1");
  EXPECT_EQ(next_text(*socket).at("input_offset").as_int64(), 0);
  const std::string big(700'000, 'x');
  type(*socket, big);
  type(*socket, "last\n");
  say(*socket, R"({"type":"eof"})");
  say(*socket, R"({"type":"eof"})");
  type(*socket, "dropped");
  std::string out;
  std::int64_t taken = 0;
  for (;;) {
    const auto message = next(*socket);
    if (!message.text) {
      out += message.data.substr(1);
      continue;
    }
    const json::object frame = json::parse(message.data).as_object();
    if (frame.at("type").as_string() == "exit") break;
    ASSERT_EQ(frame.at("type").as_string(), "input") << message.data;
    EXPECT_FALSE(frame.contains("closed"));
    EXPECT_GT(frame.at("offset").as_int64(), taken);
    taken = frame.at("offset").as_int64();
  }
  EXPECT_EQ(taken, 700'005);
  EXPECT_EQ(out, big + "last\nbehind\n");
}

TEST_F(PtyTest, AProcessThatReadsNoMoreKeepsItsConnectionOnlyWhereInputIsCounted) {
  const std::string command = "exec 0</dev/null; echo closed; read -r word <go; exit 3";
  ASSERT_EQ(::mkfifo((temp.path() / "go").c_str(), 0600), 0);
  const Socket counting = open(create(command, temp.path().string()), "?pty=0&acks=1");
  expect_connected(*counting);
  read_until(*counting, "closed\n");
  type(*counting, "nobody reads this");
  const json::object frame = next_text(*counting);
  EXPECT_EQ(frame.at("type").as_string(), "input");
  EXPECT_TRUE(frame.at("closed").as_bool());

  const Socket plain = open(create("exec 0</dev/null; echo closed; sleep 1000"), "?pty=0");
  expect_connected(*plain);
  read_until(*plain, "closed\n");
  type(*plain, "nobody reads this");
  EXPECT_EQ(next_text(*plain).at("code").as_string(), "STDIN_WRITE_FAILED");

  const UniqueFd go(::open((temp.path() / "go").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::write(go.get(), "on\n", 3), 3);
  std::string out;
  EXPECT_EQ(read_to_exit(*counting, out), 3);
}

TEST_F(PtyTest, AReconnectContinuesTheInputWhereItWas) {
  const std::string id = create("cat");
  {
    const Socket first = open(id, "?pty=0&acks=1");
    expect_connected(*first);
    type(*first, "one ");
    while (next(*first).text) continue;  // its echo is the one binary frame
  }
  // The old one may still count as connected.
  const Socket second = open(id, "?pty=0&acks=1&start=0&takeover=1&since=4");
  EXPECT_EQ(next_text(*second).at("input_offset").as_int64(), 4);
  type(*second, "two");
  say(*second, R"({"type":"eof"})");
  std::string out;
  for (;;) {
    const auto message = next(*second);
    if (message.text && message.data.contains("exit")) break;
    if (!message.text) out += message.data.substr(1);
  }
  EXPECT_EQ(out, "two");
  // Without a start nothing runs a second time.
  const Socket third = open(id, "?pty=0&start=0");
  EXPECT_EQ(next(*third).data.substr(9), "one two");
  expect_connected(*third);
  EXPECT_FALSE(service.find(id)->running());
}

TEST_F(PtyTest, ASlowHolderHoldsTheShellBackAndADetachedOneDoesNot) {
  constexpr std::uint64_t kBytes = 100'000'000;
  const std::string command = "echo begin; head -c 100000000 /dev/zero; echo end";
  const auto begin = [&](const std::string& id) {
    Socket socket = open(id, "?pty=0");
    expect_connected(*socket);
    read_until(*socket, "begin\n");
    return socket;
  };
  const auto held = service.find(create(command));
  Socket slow = begin(held->id());
  const auto free = service.find(create(command));
  begin(free->id());
  // The one without a client gets to its end meanwhile, and keeps a bounded part.
  await(io, free->ended());
  EXPECT_EQ(free->output_offset(), kBytes + 10);
  EXPECT_TRUE(held->running());
  EXPECT_LT(held->output_offset(), kBytes / 2);
  const Socket viewer = open(free->id(), "?readonly=1");
  const auto replay = next(*viewer);
  EXPECT_EQ(replay.data.size(), 9U + 1024 * 1024);
  EXPECT_EQ(offset_of(replay.data), free->output_offset() - 1024 * 1024);
  EXPECT_TRUE(replay.data.ends_with("end\n"));
  // Leaving lets the other one go on.
  slow.reset();
  await(io, held->ended());
  EXPECT_EQ(held->output_offset(), kBytes + 10);
}

TEST_F(PtyTest, AViewerThatFellBehindGetsReplaysInTheRightPlaces) {
  const std::string id = create("echo begin; read x; seq 1000000 3999999");
  const Socket holder = open(id, "?pty=0");
  expect_connected(*holder);
  read_until(*holder, "begin\n");
  const Socket viewer = open(id, "?readonly=1&since=6");
  expect_connected(*viewer);
  type(*holder, "\n");
  std::string all = "begin\n";
  EXPECT_EQ(read_to_exit(*holder, all), 0);
  ASSERT_EQ(all.size(), 6U + 3'000'000 * 8);

  std::uint64_t at = 6;
  int replays = 0;
  for (;;) {
    const auto message = next(*viewer);
    if (message.text) {
      EXPECT_EQ(message.data, R"({"type":"exit","exit_code":0})");
      break;
    }
    const bool replay = message.data[0] == 3;
    if (replay) {
      ++replays;
      EXPECT_GT(offset_of(message.data), at);  // more is missing than the buffer holds
      at = offset_of(message.data);
    }
    const std::string bytes = message.data.substr(replay ? 9 : 1);
    ASSERT_EQ(bytes, all.substr(at, bytes.size())) << "at " << at;
    at += bytes.size();
  }
  EXPECT_EQ(at, all.size());
  EXPECT_GT(replays, 0);
}

TEST_F(PtyTest, DeletingKillsEverythingOfTheShell) {
  const std::string id = create("sleep 1000 & echo $!; wait");
  const Socket socket = open(id, "?pty=0");
  expect_connected(*socket);
  const pid_t child = std::stoi(read_until(*socket, "\n"));
  EXPECT_THAT(get("/pty/" + id, "DELETE"), StartsWith("HTTP/1.1 200"));
  std::string rest;
  EXPECT_EQ(read_to_exit(*socket, rest), -1);
  const auto left = sys::read_process(child);
  EXPECT_FALSE(left && left->alive);
  EXPECT_THAT(get("/pty/" + id), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(get("/pty/" + id, "DELETE"), HasSubstr("CONTEXT_NOT_FOUND"));
  EXPECT_THAT(get("/pty/" + id + "/ws"), StartsWith("HTTP/1.1 404"));
}

TEST_F(PtyTest, AShellThatCannotStartIsReportedInAFrame) {
  const std::string id = create("", (temp.path() / "gone").string());
  std::filesystem::remove(temp.path() / "gone");
  const Socket socket = open(id);
  EXPECT_EQ(next_text(*socket).at("code").as_string(), "START_FAILED");
  EXPECT_FALSE(await(io, socket->read()));
  EXPECT_FALSE(service.find(id)->held());
}

TEST_F(PtyTest, RestHasTheContractsStatusCodes) {
  const std::string made = exchange("POST /pty HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
  EXPECT_THAT(made, ::testing::AllOf(StartsWith("HTTP/1.1 201"), HasSubstr("\"session_id\"")));
  const std::string failed = exchange(
      "POST /pty HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 23\r\n\r\n{\"cwd\": \"/dev/null/no\"}");
  EXPECT_THAT(failed, ::testing::AllOf(StartsWith("HTTP/1.1 500"), HasSubstr("RUNTIME_ERROR")));
  EXPECT_THAT(get("/pty/" + create() + "/ws?since=-1"), StartsWith("HTTP/1.1 400"));
}

TEST_F(PtyTest, AThousandIdleSessionsHoldNoBuffers) {
  for (int i = 0; i < 1000; ++i) create();
  EXPECT_EQ(service.size(), 1000U);
  EXPECT_EQ(pool.threads(), 0U);
}

}  // namespace
}  // namespace osb::execd
