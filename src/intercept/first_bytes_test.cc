#include "intercept/first_bytes.h"

#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/await.h"

namespace osb::intercept {
namespace {

using namespace std::chrono_literals;
using osb::testing::await;
using Kind = FirstBytes::Kind;

// A client that sends the bytes and then waits, or leaves.
FirstBytes first_of(std::string_view bytes, bool leaves, std::chrono::milliseconds patience = 60s) {
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  UniqueFd client(ends[0]);
  net::io_context io(1);
  auto transport = http::make_plain_transport(io.get_executor(), UniqueFd(ends[1]));
  if (!bytes.empty()) {
    EXPECT_EQ(::send(client.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  if (leaves) client.reset();
  return await(io, read_first_bytes(*transport, patience));
}

TEST(FirstBytes, AreToldApart) {
  const struct {
    const char* why;
    std::string bytes;
    Kind kind;
    Protocol protocol;
    std::optional<std::string> name;
  } rows[] = {
      {"a request", "GET / HTTP/1.1\r\nHost: A.Example.com:80\r\n\r\n", Kind::Named, Protocol::Http, "a.example.com"},
      {"with a body behind it", "PUT / HTTP/1.1\r\nHost: a.b\r\nContent-Length: 9\r\n\r\nabc", Kind::Named,
       Protocol::Http, "a.b"},
      {"to an address", "GET / HTTP/1.1\r\nHost: 10.0.0.1\r\n\r\n", Kind::Named, Protocol::Http, std::nullopt},
      {"to nobody", "GET / HTTP/1.0\r\n\r\n", Kind::Named, Protocol::Http, std::nullopt},
      {"in absolute form", "GET http://a.b/x HTTP/1.1\r\nHost: c.d\r\n\r\n", Kind::Named, Protocol::Http, "a.b"},
      {"to two hosts", "GET / HTTP/1.1\r\nHost: a.b\r\nHost: c.d\r\n\r\n", Kind::Bad, Protocol::Http, std::nullopt},
      {"to no host", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", Kind::Bad, Protocol::Http, std::nullopt},
      {"SSH", "SSH-2.0-OpenSSH_9.2\r\n", Kind::Named, Protocol::Other, std::nullopt},
      {"HTTP/2 without TLS", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Kind::Named, Protocol::Other, std::nullopt},
      {"binary", std::string("\0\1\2", 3), Kind::Named, Protocol::Other, std::nullopt},
      {"a broken hello", std::string("\x16\x03\x01\x00\x05\x02\x00\x00\x01\x00", 10), Kind::Bad, Protocol::Tls,
       std::nullopt},
  };
  for (const auto& row : rows) {
    const FirstBytes first = first_of(row.bytes, false);
    EXPECT_EQ(first.kind, row.kind) << row.why << ": " << first.why;
    EXPECT_EQ(first.protocol, row.protocol) << row.why;
    EXPECT_EQ(first.name, row.name) << row.why;
    EXPECT_EQ(first.bytes, row.bytes) << row.why;
  }
}

TEST(FirstBytes, AreAwaitedForALimitedTime) {
  EXPECT_EQ(first_of("", false, 1ms).kind, Kind::Silent);
  EXPECT_EQ(first_of("GET / HT", false, 1ms).kind, Kind::Bad);
  EXPECT_EQ(first_of("", true).kind, Kind::Ended);
  EXPECT_EQ(first_of("GET / HT", true).kind, Kind::Ended);
}

TEST(FirstBytes, AreBounded) {
  EXPECT_EQ(first_of("GET /" + std::string(20'000, 'a'), false).protocol, Protocol::Other);
  const FirstBytes first = first_of("GET / HTTP/1.1\r\nX: " + std::string(70'000, 'a'), false);
  EXPECT_EQ(first.kind, Kind::Bad);
}

TEST(HostField, HasOneMeaning) {
  const struct {
    const char* text;
    std::optional<std::string> name;
    std::optional<std::uint16_t> port;
  } rows[] = {{"Example.com", "example.com", std::nullopt},
              {"example.com.:8080", "example.com", 8080},
              {"10.0.0.1:80", std::nullopt, 80},
              {"[fd00::1]", std::nullopt, std::nullopt},
              {"[fd00::1]:443", std::nullopt, 443}};
  for (const auto& row : rows) {
    const auto field = parse_host_field(row.text);
    ASSERT_TRUE(field) << row.text;
    EXPECT_EQ(field->name, row.name) << row.text;
    EXPECT_EQ(field->port, row.port) << row.text;
  }
  for (const char* bad : {"", ":80", "a.com:", "a.com:0", "a.com:65536", "a.com:80:80", "a.com:+80", "user@a.com",
                          "a.com/b", "a.com..", "[::1", "[a.com]", "::1", "a.com,b.com", "a.com#"}) {
    EXPECT_FALSE(parse_host_field(bad)) << bad;
  }
}

}  // namespace
}  // namespace osb::intercept
