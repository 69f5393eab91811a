#include "intercept/h2_fixture.h"

namespace osb::intercept {
namespace {

using namespace testing;

// A client that lets one stream have little of its connection's window.
constexpr std::uint32_t kNarrow = 64 * 1024;
const H2Limits kNarrowStreams{.stream_window = kNarrow, .connection_window = 1 << 20};

TEST_F(H2Test, LargeBodiesArriveWhole) {
  constexpr std::size_t kSize = 8 << 20;
  std::string text;
  for (std::size_t i = 0; text.size() < kSize; ++i) text += std::to_string(i) + " ";
  serve_ = [&](H2Peer& self, std::int32_t id) {
    if (self.streams[id].head.method == "GET") return self.answer(id, 200, text);
  };
  start_host();
  H2Peer& client = connect();
  EXPECT_TRUE(ask(client, get()).body == text);
  const std::int32_t upload = client.ask(post(), true, text);
  EXPECT_TRUE(await(io_, host().until_ended(3)));
  EXPECT_TRUE(host().streams[3].body == text);
  host().answer(3, 201, "");
  host().flush();
  EXPECT_TRUE(await(io_, client.until_ended(upload)));
  EXPECT_EQ(client.streams[upload].head.status, 201);
}

// The bytes that wait for a client that does not read one stream stay within the windows, and its other streams go on.
TEST_F(H2Test, AStreamThatIsNotReadHoldsItsSenderBack) {
  const std::string text(16 << 20, 'x');
  serve_ = [&](H2Peer& self, std::int32_t id) {
    self.answer(id, 200, self.streams[id].head.path == "/large" ? text : "small");
  };
  start_host();
  H2Peer& client = connect(kNarrowStreams);
  const std::int32_t large = client.ask(get("/large"));
  client.streams[large].reads = false;
  EXPECT_TRUE(await(io_, client.until([&] { return client.streams[large].body.size() == kNarrow; })));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(ask(client, get("/small")).body, "small");
  EXPECT_EQ(client.streams[large].body.size(), kNarrow);
  EXPECT_GE(host().streams[1].to_send.size(), text.size() - kNarrow - H2Limits().stream_window);
  client.read_on(large);
  EXPECT_TRUE(await(io_, client.until_ended(large)));
  EXPECT_TRUE(client.streams[large].body == text);
}

TEST_F(H2Test, AHostThatDoesNotReadARequestHoldsItsClientBack) {
  const std::string text(16 << 20, 'x');
  serve_ = [](H2Peer& self, std::int32_t id) {
    if (self.streams[id].head.path == "/small") return self.answer(id, 200, "small");
    self.streams[id].reads = false;
  };
  start_host();
  H2Peer& client = connect();
  const std::int32_t large = client.ask(post("/large"), true, text);
  H2Peer& server = host();
  const std::size_t window = H2Limits().connection_window;  // the host's
  EXPECT_TRUE(await(io_, server.until([&] { return server.streams[1].body.size() == window; })));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(ask(client, get("/small")).body, "small");
  EXPECT_GE(client.streams[large].to_send.size(), text.size() - window - H2Limits().stream_window);
  server.read_on(1);
  EXPECT_TRUE(await(io_, server.until_ended(1)));
  EXPECT_TRUE(server.streams[1].body == text);
}

// Bytes that wait when their stream ends do not stay in the connection's window, which has room for four such streams.
TEST_F(H2Test, AnswersThatAreNotReadToTheEndGiveTheirWindowBack) {
  const std::string text(1 << 20, 'x');
  serve_ = [&](H2Peer& self, std::int32_t id) { self.answer(id, 200, text); };
  start_host();
  H2Peer& client = connect(kNarrowStreams);
  for (std::int32_t i = 1; i < 16; i += 2) {
    ASSERT_EQ(client.ask(get()), i);
    client.streams[i].reads = false;
    EXPECT_TRUE(await(io_, client.until([&] { return client.streams[i].body.size() == kNarrow; })));
    run_until([&] { return hosts_[0]->streams[i].to_send.size() <= text.size() - H2Limits().stream_window; });
    client.session().reset(i, H2Code::Cancel);
    client.read_on(i);
    EXPECT_TRUE(await(io_, host().until([&] { return hosts_[0]->streams[i].closed.has_value(); })));
  }
  EXPECT_TRUE(ask(client, get()).body == text);
}

TEST_F(H2Test, RequestsThatAreNotReadToTheEndGiveTheirWindowBack) {
  const std::string text(1 << 20, 'x');
  serve_ = [](H2Peer& self, std::int32_t id) { self.streams[id].reads = self.streams[id].head.path == "/read"; };
  start_host();
  H2Peer& client = connect();
  for (std::int32_t i = 1; i < 16; i += 2) {
    ASSERT_EQ(client.ask(post(), true, text), i);
    const std::size_t window = H2Limits().connection_window;
    EXPECT_TRUE(await(io_, host().until([&] { return hosts_[0]->streams[i].body.size() == window; })));
    run_until([&] { return client.streams[i].to_send.size() <= text.size() - H2Limits().stream_window; });
    host().session().reset(i, H2Code::Cancel);
    host().read_on(i);
    EXPECT_TRUE(await(io_, client.until([&] { return client.streams[i].closed.has_value(); })));
  }
  client.ask(post("/read"), true, text);
  EXPECT_TRUE(await(io_, host().until_ended(17)));
  EXPECT_TRUE(host().streams[17].body == text);
}

TEST_F(H2Test, BodiesOfRefusedRequestsGiveTheirWindowBack) {
  const std::string text(1 << 20, 'x');
  rules_.denied_path = "/denied";
  start_host();
  H2Peer& client = connect();
  for (int i = 0; i < 64; ++i) {
    const std::int32_t id = client.ask(post("/denied"), true, text);
    EXPECT_TRUE(await(io_, client.until([&] { return client.streams[id].closed.has_value(); })));
    EXPECT_EQ(client.streams[id].head.status, 403);
  }
  EXPECT_EQ(ask(client, post(), text).head.status, 200);
  EXPECT_TRUE(await(io_, host().until_ended(1)));
  EXPECT_TRUE(host().streams[1].body == text);
}

}  // namespace
}  // namespace osb::intercept
