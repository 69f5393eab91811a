#include "http/parser.h"

#include <gtest/gtest.h>

namespace osb::http {
namespace {

TEST(RequestHead, AbsoluteTargetsBecomeOriginForm) {
  const struct {
    const char* given;
    const char* want;
  } rows[] = {{"http://a.example/x?y", "/x?y"}, {"http://a.example", "/"}, {"http://a.example?q", "/?q"}, {"*", "*"}};
  for (const auto& row : rows) {
    const auto head = parse_request_head(std::string("OPTIONS ") + row.given + " HTTP/1.1\r\nHost: a\r\n\r\n");
    ASSERT_TRUE(head) << row.given << ": " << head.error().message;
    EXPECT_EQ(head->target, row.want);
  }
}

TEST(RequestHead, KeepAliveFollowsVersionAndConnection) {
  const struct {
    const char* head;
    bool want;
  } rows[] = {
      {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", true},
      {"GET / HTTP/1.1\r\nHost: a\r\nConnection: foo, Close\r\n\r\n", false},
      {"GET / HTTP/1.0\r\n\r\n", false},
      {"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", true},
  };
  for (const auto& row : rows) EXPECT_EQ(parse_request_head(row.head)->keep_alive, row.want) << row.head;
}

TEST(ResponseHead, BodiesAreDelimitedAsHttpSays) {
  using Kind = Framing::Kind;
  const struct {
    const char* head;
    bool to_head;
    Kind want;
  } rows[] = {
      {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", false, Kind::Length},
      {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false, Kind::None},
      {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", true, Kind::None},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", false, Kind::Chunked},
      {"HTTP/1.1 200 OK\r\n\r\n", false, Kind::UntilClose},
      {"HTTP/1.1 204 No Content\r\n\r\n", false, Kind::None},
      {"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", false, Kind::None},
  };
  for (const auto& row : rows) {
    const auto head = parse_response_head(row.head, row.to_head);
    ASSERT_TRUE(head) << row.head;
    EXPECT_EQ(head->framing.kind, row.want) << row.head;
  }
}

TEST(HeadEnd, IsFoundHoweverTheBytesArrive) {
  const std::string bytes = "GET / HTTP/1.1\r\nHost: a\r\n\r\nrest";
  std::size_t searched = 0;
  std::size_t found = 0;
  for (std::size_t n = 1; n <= bytes.size() && found == 0; ++n) found = find_head_end(bytes.substr(0, n), searched);
  EXPECT_EQ(bytes.substr(found), "rest");
}

TEST(ChunkDecoder, GivesTheBodyHoweverTheBytesArrive) {
  const std::string wire = "5\r\nhello\r\n1;x=\"y\"\r\n \r\n00A\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n";
  for (std::size_t piece = 1; piece <= wire.size(); ++piece) {
    ChunkDecoder decoder;
    std::string waiting;
    std::string body;
    bool done = false;
    for (std::size_t at = 0; at < wire.size() && !done; at += piece) {
      waiting += wire.substr(at, piece);
      for (;;) {
        const auto step = decoder.step(waiting);
        ASSERT_TRUE(step) << step.error().message;
        body += step->data;
        waiting.erase(0, step->consumed);
        done = step->done;
        if (done || step->need_more) break;
      }
    }
    EXPECT_TRUE(done) << piece;
    EXPECT_EQ(body, "hello 0123456789") << piece;
  }
}

}  // namespace
}  // namespace osb::http
