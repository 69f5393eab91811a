#include "http/websocket_relay.h"

#include <sys/socket.h>

#include <gtest/gtest.h>

#include "http/http_fixture.h"
#include "http/websocket_key.h"

namespace osb::http {
namespace {

using ws::CloseFilter;
using ws::Opcode;
using ws::Role;

constexpr ws::Mask kMask{'a', 'b', 'c', 'd'};

std::string frame(Opcode opcode, std::string payload, bool masked) {
  std::string out(ws::FrameHead(opcode, payload.size(), masked ? &kMask : nullptr).view());
  if (masked) ws::apply_mask(payload.data(), payload.size(), kMask, 0);
  return out + payload;
}

std::string code_bytes(unsigned code) { return {static_cast<char>(code >> 8), static_cast<char>(code & 0xFF)}; }

// Everything that comes out when the bytes come in pieces.
std::string filtered(CloseFilter& filter, std::string_view bytes, std::size_t piece) {
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += piece) {
    const auto [frames, close] = filter.pass(bytes.substr(i, piece));
    out.append(frames).append(close);
  }
  return out;
}

// The code of a close frame; 0 when it is none or empty.
unsigned code_of(std::string_view bytes, Role receiver) {
  ws::FrameDecoder decoder(receiver, 1024);
  const auto event = decoder.next(bytes);
  return event.kind == ws::FrameDecoder::Event::Kind::Close ? event.code : 0;
}

TEST(CloseFilter, MessagesOfAnySizePassUnchangedHoweverTheyAreCut) {
  for (const bool masked : {false, true}) {
    std::string bytes;
    for (const std::size_t size : {0u, 1u, 125u, 126u, 300u, 65535u, 65536u, 200000u}) {
      bytes += frame(Opcode::Binary, std::string(size, '\x88'), masked);
    }
    bytes += frame(Opcode::Ping, "p", masked) + frame(Opcode::Close, code_bytes(3999) + "bye", masked);
    for (const std::size_t piece : {1u, 2u, 3u, 7u, 4096u, 1000000u}) {
      CloseFilter filter(masked ? Role::Server : Role::Client);
      EXPECT_EQ(filtered(filter, bytes, piece), bytes) << piece;
      EXPECT_TRUE(filter.closed());
      EXPECT_EQ(filter.end(), "");
    }
  }
}

TEST(CloseFilter, CodesThatMayNotBeSentAreReplaced) {
  struct {
    const char* why;
    std::string payload;
    unsigned to_client, to_backend;
  } rows[] = {
      {"none", "", 1000, 1000},
      {"half a code", "x", 1011, 1001},
      {"1005 is for none", code_bytes(1005), 1011, 1001},
      {"1006 is for a lost connection", code_bytes(1006) + "lost", 1011, 1001},
      {"1015 is for TLS", code_bytes(1015), 1011, 1001},
      {"below all", code_bytes(0), 1011, 1001},
      {"reserved", code_bytes(2999), 1011, 1001},
      {"above all", code_bytes(5000), 1011, 1001},
      {"a usual one stays", code_bytes(1001) + "going", 1001, 1001},
      {"an application's stays", code_bytes(4000), 4000, 4000},
  };
  for (const auto& row : rows) {
    for (const std::size_t piece : {1u, 100u}) {
      CloseFilter to_client(Role::Client), to_backend(Role::Server);
      EXPECT_EQ(code_of(filtered(to_client, frame(Opcode::Close, row.payload, false), piece), Role::Client),
                row.to_client)
          << row.why;
      EXPECT_EQ(code_of(filtered(to_backend, frame(Opcode::Close, row.payload, true), piece), Role::Server),
                row.to_backend)
          << row.why;
    }
  }
}

TEST(CloseFilter, NothingFollowsAClose) {
  CloseFilter filter(Role::Client);
  const std::string close = frame(Opcode::Close, code_bytes(1000), false);
  EXPECT_EQ(filtered(filter, close + frame(Opcode::Text, "late", false), 1000), close);
  EXPECT_EQ(filtered(filter, frame(Opcode::Text, "later", false), 1000), "");
}

TEST(CloseFilter, ACloseFrameThatIsTooLongEndsTheConnection) {
  CloseFilter filter(Role::Client);
  const std::string long_close = std::string("\x88\x7e\x01\x00", 4) + std::string(256, 'x');
  EXPECT_EQ(code_of(filtered(filter, long_close, 1000), Role::Client), 1011u);
}

TEST(CloseFilter, ALostSideIsToldBetweenFramesOnly) {
  CloseFilter fresh(Role::Client), backend(Role::Server), inside(Role::Client), half_head(Role::Client);
  EXPECT_EQ(code_of(fresh.end(), Role::Client), 1011u);
  EXPECT_EQ(code_of(backend.end(), Role::Server), 1001u);
  EXPECT_EQ(fresh.end(), "") << "once";
  const std::string text = frame(Opcode::Text, "hello", false);
  inside.pass(std::string_view(text).substr(0, 4));
  EXPECT_EQ(inside.end(), "");
  half_head.pass(std::string_view(text).substr(0, 1));
  EXPECT_EQ(half_head.end(), "");
}

class RelayTest : public testing::HttpFixture {
 protected:
  // A connection: our end, and the end that the relay holds.
  std::pair<std::unique_ptr<Transport>, std::unique_ptr<Transport>> make_pair() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    auto ours = make_plain_transport(io.get_executor(), UniqueFd(ends[0]));
    ours->set_timeout(Millis(60000));
    return {std::move(ours), make_plain_transport(io.get_executor(), UniqueFd(ends[1]))};
  }

  void expect_end(Transport& from) {
    char byte;
    const auto got = osb::testing::await(io, from.read_some({&byte, 1}));
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(*got, 0u);
  }
};

TEST_F(RelayTest, AfterBothCloseFramesBothConnectionsEndThoughNeitherSideEndsItsOwn) {
  auto [client, to_client] = make_pair();
  auto [backend, to_backend] = make_pair();
  bool done = false;
  net::co_spawn(io, relay_websocket(*to_client, "", std::move(to_backend), ""),
                [&](std::exception_ptr error) { done = !error; });
  const std::string from_backend = frame(Opcode::Close, code_bytes(4000), false);
  const std::string from_client = frame(Opcode::Close, code_bytes(4000), true);
  send(*backend, from_backend);
  EXPECT_EQ(read_until(*client, from_backend), from_backend);
  send(*client, from_client);
  EXPECT_EQ(read_until(*backend, from_client), from_client);
  expect_end(*client);
  expect_end(*backend);
  client->close();
  backend->close();
  while (!done) io.run_one();
}

}  // namespace
}  // namespace osb::http
