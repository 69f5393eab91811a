#include "async/race.h"
#include "intercept/h2_fixture.h"

namespace osb::intercept {
namespace {

using namespace testing;
using ::testing::HasSubstr;

// RFC 9113, section 6.
enum Type : char { kData, kHeaders, kPriority, kReset, kSettings, kPush, kPing, kGoAway, kWindow, kContinuation };
constexpr char kEndStream = 1, kAck = 1, kEndHeaders = 4;
constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

std::string number(std::uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
          static_cast<char>(value)};
}
std::string frame(Type type, char flags, std::uint32_t stream, const std::string& payload) {
  return number(static_cast<std::uint32_t>(payload.size())).substr(1) + static_cast<char>(type) + flags +
         number(stream) + payload;
}

// A field as a literal that no table gets (RFC 7541, 6.2.2), with lengths below 127.
std::string field(const std::string& name, const std::string& value) {
  return std::string(1, '\0') + static_cast<char>(name.size()) + name + static_cast<char>(value.size()) + value;
}
std::string head(const std::string& more, const std::string& host = "api.example.com") {
  return field(":method", "POST") + field(":scheme", "https") + field(":authority", host) + field(":path", "/") + more;
}

struct Got {
  char type = 0;
  std::uint32_t stream = 0;
  std::string payload;
  std::uint32_t code() const {
    std::uint32_t out = 0;
    for (const char c : payload.substr(type == kGoAway ? 4 : 0, 4)) out = out << 8 | static_cast<unsigned char>(c);
    return out;
  }
};

// Frames by hand, against the interceptor.
class H2Attack : public H2Test {
 protected:
  using Until = std::function<bool(const Got&)>;

  // Reads frames until `until` is true for one, or the connection ends. `in`: bytes that were read before.
  static net::awaitable<bool> read(http::Transport& transport, std::string& in, std::vector<Got>& out, Until until) {
    std::vector<char> buffer(16 * 1024);
    for (;;) {
      while (in.size() >= 9) {
        const auto byte = [&](std::size_t at) {
          return static_cast<std::uint32_t>(static_cast<unsigned char>(in[at]));
        };
        const std::size_t size = byte(0) << 16 | byte(1) << 8 | byte(2);
        if (in.size() < 9 + size) break;
        out.push_back({in[3], byte(5) << 24 | byte(6) << 16 | byte(7) << 8 | byte(8), in.substr(9, size)});
        in.erase(0, 9 + size);
        if (until && until(out.back())) co_return true;
      }
      const auto got = co_await transport.read_some(buffer);
      if (!got || *got == 0) co_return false;
      in.append(buffer.data(), *got);
    }
  }
  // Writes, although the interceptor may stop reading in the middle, and reads at the same time.
  static net::awaitable<void> exchange(http::Transport& transport, std::string bytes, std::string& in,
                                       std::vector<Got>& out, Until until) {
    using namespace race;
    const auto write = [&]() -> net::awaitable<void> { (void)co_await transport.write_all(bytes); };
    const auto read_all = [&]() -> net::awaitable<void> {
      co_await read(transport, in, out, std::move(until));
      transport.close();
    };
    co_await (write() && read_all());
  }

  // A client that sends bytes after the preface.
  std::vector<Got> send(std::string bytes, Until until = {}) {
    const auto talk = [&](std::unique_ptr<http::Transport> transport) -> net::awaitable<std::vector<Got>> {
      std::vector<Got> out;
      std::string in;
      co_await exchange(*transport, std::string(kPreface) + frame(kSettings, 0, 0, "") + bytes, in, out, until);
      co_return out;
    };
    return await(io_, talk(dial_http2(tls::Offer::Http2)));
  }

  // A host that sends bytes after the head of request `stream`. Its frames are in host_got_ when it has ended.
  void host_sends(std::uint32_t stream, std::string bytes) {
    host_got_.clear();
    host_ended_.clear();
    serve_raw_ = [this, stream, bytes = std::move(bytes)](auto transport) {
      return be_host(std::move(transport), stream, bytes);
    };
  }
  net::awaitable<void> be_host(std::unique_ptr<http::Transport> transport, std::uint32_t stream, std::string bytes) {
    std::string in(kPreface.size(), '\0');
    // Our settings, and the acknowledgement of the interceptor's.
    (void)co_await transport->write_all(frame(kSettings, 0, 0, "") + frame(kSettings, kAck, 0, ""));
    for (std::size_t read = 0; read < in.size();) {
      const auto got = co_await transport->read_some({in.data() + read, in.size() - read});
      if (!got || *got == 0) co_return;
      read += *got;
    }
    in.clear();
    const auto asked = [stream](const Got& got) { return got.type == kHeaders && got.stream == stream; };
    if (co_await read(*transport, in, host_got_, asked)) co_await exchange(*transport, bytes, in, host_got_, {});
    host_ended_.set();
  }

  static Until answer_of(std::uint32_t stream) {
    return [stream](const Got& got) { return got.stream == stream && (got.type == kHeaders || got.type == kReset); };
  }
  static std::optional<std::uint32_t> went_away(const std::vector<Got>& frames) {
    for (const Got& got : frames) {
      if (got.type == kGoAway) return got.code();
    }
    return std::nullopt;
  }
  std::size_t requests() const {
    std::size_t out = 0;
    for (const auto& host : hosts_) out += host->streams.size();
    return out;
  }

  std::vector<Got> host_got_;
  Event host_ended_{io_.get_executor()};
};

TEST_F(H2Attack, FieldsThatAreNotAllowedResetTheirStream) {
  start_host();
  using namespace std::string_literals;
  const std::vector<std::string> bad = {field("Upper", "x"),
                                        field("a b", "x"),
                                        field("a:b", "x"),
                                        field("a\r\nb", "x"),
                                        field("a\0b"s, "x"),
                                        field("a\x7f", "x"),
                                        field("\xc3\xa4", "x"),
                                        field("", "x"),
                                        field("x", "a\r\nauthorization: b"),
                                        field("x", "a\0b"s),
                                        field("x", "\n"),
                                        field("connection", "close"),
                                        field("transfer-encoding", "chunked"),
                                        field("upgrade", "h2c"),
                                        field("keep-alive", "1"),
                                        field("proxy-connection", "x"),
                                        field("te", "gzip"),
                                        field("content-length", "1") + field("content-length", "2"),
                                        field("content-length", "+1"),
                                        field("host", kHost) + field("host", "other.example.com"),
                                        field(":path", "/two"),
                                        field(":method", "GET"),
                                        field(":authority", "other.example.com"),
                                        field(":foo", "x"),
                                        field(":status", "200"),
                                        field(":protocol", "websocket"),
                                        field("x", "y") + field(":scheme", "https")};
  for (std::size_t i = 0; i < bad.size(); ++i) {
    // A good request behind it is served, unless the connection ended.
    const auto frames = send(frame(kHeaders, kEndStream | kEndHeaders, 1, head(bad[i])) +
                                 frame(kHeaders, kEndStream | kEndHeaders, 3, head("")),
                             answer_of(3));
    bool refused = went_away(frames).has_value();
    for (const Got& got : frames) refused = refused || (got.type == kReset && got.stream == 1 && got.code() != 0);
    EXPECT_TRUE(refused) << "number " << i;
    for (const auto& host : hosts_) EXPECT_LE(host->streams.size(), 1u) << "number " << i;
    hosts_.back()->streams.clear();
  }
}

TEST_F(H2Attack, ConnectIsNotPassedOn) {
  start_host();
  const std::string plain = field(":method", "CONNECT") + field(":authority", "api.example.com");
  const std::string extended = field(":method", "CONNECT") + field(":protocol", "websocket") +
                               field(":scheme", "https") + field(":authority", "api.example.com") + field(":path", "/");
  const auto refused = send(frame(kHeaders, kEndHeaders, 1, plain), answer_of(1));
  ASSERT_FALSE(refused.empty());
  EXPECT_EQ(refused.back().type, kHeaders);
  EXPECT_THAT(refused.back().payload, HasSubstr("405"));
  // We have not said that we know :protocol.
  const auto reset = send(frame(kHeaders, kEndHeaders, 1, extended), answer_of(1));
  ASSERT_FALSE(reset.empty());
  EXPECT_EQ(reset.back().type, kReset);
  EXPECT_EQ(reset.back().code(), 1u);  // PROTOCOL_ERROR
  EXPECT_EQ(requests(), 0u);
}

TEST_F(H2Attack, ABodyThatDisagreesWithItsLengthIsNotCompleted) {
  start_host();
  send(frame(kHeaders, kEndHeaders, 1, head(field("content-length", "3"))) +
           frame(kData, kEndStream, 1, "abcGET /smuggled"),
       answer_of(1));
  for (const auto& host : hosts_) {
    EXPECT_TRUE(await(io_, host->until([&] { return host->streams.empty() || host->streams[1].closed; })));
    for (const auto& [id, seen] : host->streams) EXPECT_FALSE(seen.ended);
  }
}

TEST_F(H2Attack, FramesThatCarryNothingEndTheConnection) {
  start_host();
  const std::vector<std::string> floods = {frame(kPing, 0, 0, "12345678"), frame(kSettings, 0, 0, ""),
                                           frame(kPriority, 0, 1, std::string("\0\0\0\0\1", 5))};
  for (const std::string& flood : floods) {
    std::string bytes;
    for (int i = 0; i < 20'000; ++i) bytes += flood;
    EXPECT_EQ(went_away(send(std::move(bytes))), 11u) << int{flood[3]};  // ENHANCE_YOUR_CALM
  }
  std::string bytes = frame(kHeaders, kEndHeaders, 1, head(""));
  for (int i = 0; i < 20'000; ++i) bytes += frame(kData, 0, 1, "");
  EXPECT_EQ(went_away(send(std::move(bytes))), 11u);
}

TEST_F(H2Attack, RapidResetsEndTheConnection) {
  serve_ = [](H2Peer&, std::int32_t) {};
  start_host();
  std::string own, provoked;
  for (std::uint32_t i = 1; i < 10'000; i += 2) {
    own += frame(kHeaders, kEndStream | kEndHeaders, i, head("")) + frame(kReset, 0, i, number(8));
    // A window that overflows makes us reset the stream.
    provoked += frame(kHeaders, kEndStream | kEndHeaders, i, head("")) + frame(kWindow, 0, i, number(0x7fffffff));
  }
  EXPECT_TRUE(went_away(send(std::move(own))));
  EXPECT_LT(requests(), 2000u);
  hosts_.back()->streams.clear();
  EXPECT_TRUE(went_away(send(std::move(provoked))));
  EXPECT_LT(requests(), 2000u);
}

TEST_F(H2Attack, HeadsWithoutAnEndAndHeadsThatGrowAreRefused) {
  start_host();
  std::string endless = frame(kHeaders, kEndStream, 1, head(""));
  for (int i = 0; i < 1000; ++i) endless += frame(kContinuation, 0, 1, field("x", std::string(100, 'x')));
  EXPECT_TRUE(went_away(send(std::move(endless))));
  // One byte stands for a field of 4,000: a table entry, used again and again.
  const std::string large(3900, 'x');
  std::string bomb = head("") + "\x40\x01y" + std::string("\x7f\xbd\x1d", 3) + large;
  bomb += std::string(10'000, static_cast<char>(0xbe));
  std::string whole = frame(kHeaders, kEndStream | kEndHeaders, 1, bomb);
  const auto frames = send(std::move(whole), answer_of(1));
  ASSERT_FALSE(frames.empty());
  EXPECT_TRUE(frames.back().type == kHeaders || frames.back().type == kGoAway);
  EXPECT_EQ(requests(), 0u);
}

TEST_F(H2Attack, MoreStreamsThanAllowedAreRefused) {
  serve_ = [](H2Peer&, std::int32_t) {};
  start_host();
  std::string bytes;
  for (std::uint32_t i = 0; i < 200; ++i) bytes += frame(kHeaders, kEndStream | kEndHeaders, 2 * i + 1, head(""));
  const auto refused = [](const Got& got) { return got.type == kGoAway || (got.type == kReset && got.stream == 399); };
  const auto frames = send(std::move(bytes), refused);
  ASSERT_FALSE(frames.empty());
  EXPECT_TRUE(refused(frames.back()));
  EXPECT_LE(requests(), 128u);
}

TEST_F(H2Attack, TrashEndsTheConnection) {
  start_host();
  EXPECT_TRUE(went_away(send("GET / HTTP/1.1\r\nHost: api.example.com\r\n\r\n" + std::string(100, '\0'))));
  EXPECT_TRUE(went_away(send(frame(kPush, kEndHeaders, 1, number(2) + head("")))));
  EXPECT_TRUE(went_away(send(frame(kHeaders, kEndStream | kEndHeaders, 2, head("")))));
  EXPECT_TRUE(went_away(send(frame(kHeaders, kEndStream | kEndHeaders, 1, "\xff\xff\xff\xff\xff\xff"))));
  EXPECT_EQ(requests(), 0u);
}

// Compression tables of the connection never hold a credential (RFC 7541, 7.1.3: 0001 and the index of the name).
TEST_F(H2Attack, CredentialsAreNeverPutIntoTables) {
  start_host();
  rules_.target = "/secret-path";
  host_sends(1, frame(kHeaders, kEndStream | kEndHeaders, 1, field(":status", "200")));
  H2Peer& client = connect();
  EXPECT_EQ(ask(client, get()).head.status, 200);
  client.leave();
  EXPECT_TRUE(await(io_, host_ended_.wait()));
  std::string head;
  for (const Got& got : host_got_) head += got.type == kHeaders ? got.payload : "";
  EXPECT_THAT(head, HasSubstr("\x1f\x08"));  // authorization
  EXPECT_THAT(head, HasSubstr("\x14"));      // :path
}

// A host's frames, and their end: the code with which it loses its connection.
struct Attack {
  std::string name, bytes;
  std::uint32_t code;
};
const std::string kStatus = field(":status", "200");
const std::string kBegun = frame(kHeaders, kEndHeaders, 1, kStatus);
constexpr std::uint32_t kProtocolError = 1, kFlowControlError = 3, kCompressionError = 9, kCalm = 11;

std::string times(int count, const std::string& bytes) {
  std::string out;
  for (int i = 0; i < count; ++i) out += bytes;
  return out;
}

TEST_F(H2Attack, AHostThatBreaksTheProtocolLosesItsConnection) {
  start_host();
  const std::string answer = frame(kHeaders, kEndStream | kEndHeaders, 1, kStatus);
  const std::vector<Attack> attacks = {
      {"a push", frame(kPush, kEndHeaders, 1, number(2) + head("")) + frame(kHeaders, kEndHeaders, 2, kStatus),
       kProtocolError},
      {"an answer to no request", frame(kHeaders, kEndStream | kEndHeaders, 3, kStatus), kProtocolError},
      {"a stream of its own", frame(kHeaders, kEndStream | kEndHeaders, 2, head("")), kProtocolError},
      {"pings", times(20'000, frame(kPing, 0, 0, "12345678")), kCalm},
      {"settings", times(20'000, frame(kSettings, 0, 0, "")), kCalm},
      {"priorities", times(20'000, frame(kPriority, 0, 1, std::string("\0\0\0\0\1", 5))), kCalm},
      {"a window that overflows", frame(kWindow, 0, 0, number(0x7fffffff)), kFlowControlError},
      {"fields that are none", frame(kHeaders, kEndStream | kEndHeaders, 1, "\xff\xff\xff\xff\xff\xff"),
       kCompressionError},
      {"a head without an end",
       frame(kHeaders, kEndStream, 1, kStatus) +
           times(1000, frame(kContinuation, 0, 1, field("x", std::string(100, 'x')))),
       kProtocolError},
      {"pings after its answer", kBegun + times(20'000, frame(kPing, 0, 0, "12345678")), kCalm},
      {"data that is empty", kBegun + times(20'000, frame(kData, 0, 1, "")), kCalm}};
  for (const Attack& attack : attacks) {
    host_sends(1, attack.bytes);
    H2Peer& client = connect();
    const std::int32_t id = client.ask(get());
    EXPECT_TRUE(await(io_, client.until([&] { return client.over; }))) << attack.name;
    const auto& seen = client.streams[id];
    if (attack.bytes.starts_with(kBegun)) {
      EXPECT_EQ(seen.closed, H2Code::Internal) << attack.name;
    } else {
      EXPECT_EQ(seen.head.status, 502) << attack.name;
    }
    EXPECT_TRUE(client.going_away) << attack.name;
    EXPECT_EQ(client.streams.size(), 1u) << attack.name;
    client.leave();
    EXPECT_TRUE(await(io_, host_ended_.wait()));
    EXPECT_EQ(went_away(host_got_), attack.code) << attack.name;
  }
}

TEST_F(H2Attack, AnAnswerThatIsNotAllowedEndsItsStreamAlone) {
  start_host();
  const std::vector<std::string> bad = {
      frame(kHeaders, kEndStream | kEndHeaders, 1, kStatus + field("connection", "close")),
      frame(kHeaders, kEndStream | kEndHeaders, 1, kStatus + field("x", "a\r\nset-cookie: b")),
      frame(kHeaders, kEndStream | kEndHeaders, 1, field("x", "y")),
      frame(kHeaders, kEndStream | kEndHeaders, 1, head("")),
      frame(kHeaders, kEndStream | kEndHeaders, 1, field(":status", "103")),
      kBegun + kBegun,
      kBegun + frame(kHeaders, kEndStream | kEndHeaders, 1, kStatus),
      frame(kHeaders, kEndHeaders, 1, kStatus + field("content-length", "3")) + frame(kData, kEndStream, 1, "abcdef"),
      frame(kHeaders, kEndHeaders, 1, kStatus + field("content-length", "3")) + frame(kData, kEndStream, 1, "a")};
  for (std::size_t i = 0; i < bad.size(); ++i) {
    host_sends(3, bad[i] + frame(kHeaders, kEndStream | kEndHeaders, 3, field(":status", "204")));
    H2Peer& client = connect();
    client.ask(get());
    EXPECT_EQ(ask(client, get()).head.status, 204) << "number " << i;
    EXPECT_TRUE(await(io_, client.until([&] { return client.streams[1].closed.has_value(); })));
    EXPECT_NE(client.streams[1].closed, H2Code::None) << "number " << i;
    EXPECT_FALSE(client.streams[1].ended) << "number " << i;
    client.leave();
    EXPECT_TRUE(await(io_, host_ended_.wait()));
  }
}

// Requests that the host says it has not seen are refused, so that the client may send them again; what the host
// answers to them in spite of that goes nowhere.
TEST_F(H2Attack, AHostThatGoesAwayAnswersNothingThatItRefused) {
  start_host();
  const std::string leave = frame(kGoAway, 0, 0, number(1) + number(0));
  const std::string late = frame(kHeaders, kEndHeaders, 3, kStatus) + frame(kData, kEndStream, 3, "late");
  host_sends(3, leave + late + kBegun + frame(kData, kEndStream, 1, "in time"));
  H2Peer& client = connect();
  const std::int32_t first = client.ask(get()), second = client.ask(get());
  EXPECT_TRUE(await(io_, client.until([&] { return client.over; })));
  EXPECT_TRUE(client.going_away);
  EXPECT_EQ(client.streams[first].body, "in time");
  EXPECT_TRUE(client.streams[first].ended);
  EXPECT_EQ(client.streams[second].closed, H2Code::Refused);
  EXPECT_EQ(client.streams[second].head.status, 0);
  EXPECT_EQ(client.streams[second].body, "");
  // The next connection is served by a new one to the host.
  client.leave();
  EXPECT_TRUE(await(io_, host_ended_.wait()));
  host_sends(1, frame(kHeaders, kEndStream | kEndHeaders, 1, kStatus));
  H2Peer& next = connect();
  EXPECT_EQ(ask(next, get()).head.status, 200);
  next.leave();
  EXPECT_TRUE(await(io_, host_ended_.wait()));
}

}  // namespace
}  // namespace osb::intercept
