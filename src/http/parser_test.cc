#include "http/parser.h"

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <gtest/gtest.h>

namespace osb::http {
namespace {

namespace bhttp = boost::beast::http;

using Fields = std::vector<std::pair<std::string, std::string>>;

// Beast keeps fields of one name together, so order does not count.
Fields sorted(Fields fields) {
  std::ranges::sort(fields);
  return fields;
}

Fields fields_of(const Headers& headers) {
  Fields out;
  for (const auto& [name, value] : headers) out.emplace_back(name, value);
  return sorted(std::move(out));
}

template <bool IsRequest>
Fields fields_of(const bhttp::parser<IsRequest, bhttp::empty_body>& parser) {
  Fields out;
  for (const auto& field : parser.get()) out.emplace_back(field.name_string(), field.value());
  return sorted(std::move(out));
}

template <bool IsRequest>
bool read_by(bhttp::parser<IsRequest, bhttp::empty_body>& parser, std::string_view head) {
  boost::system::error_code error;
  parser.put(boost::asio::buffer(head), error);
  return !error && parser.is_header_done();
}

// A few random bytes and fragments put into, over or out of a message head.
std::string damaged(std::string head, std::mt19937& random) {
  static constexpr std::string_view kFragments[] = {"\r\n",
                                                    "\n",
                                                    "\r",
                                                    " ",
                                                    "\t",
                                                    ":",
                                                    ",",
                                                    "\x7f",
                                                    "\x80",
                                                    "/",
                                                    "(",
                                                    "HTTP/1.1",
                                                    "Content-Length: 3\r\n",
                                                    "Connection: close\r\n",
                                                    "Transfer-Encoding: chunked\r\n",
                                                    "Host: b\r\n",
                                                    "\r\n "};
  for (auto left = 1 + random() % 3; left > 0; --left) {
    const std::size_t at = random() % head.size();
    switch (random() % 3) {
      case 0:
        head[at] = static_cast<char>(random());
        break;
      case 1:
        head.insert(at, kFragments[random() % std::size(kFragments)]);
        break;
      default:
        head.erase(at, 1);
    }
  }
  return head;
}

// Beast is a parser of its own origin: where two agree, a proxy and its upstream do.
TEST(MessageHead, BeastReadsAcceptedHeadsTheSameWay) {
  const std::string seeds[] = {
      "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
      "POST /x?y=%20 HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\nX-A: b c\t d\r\n\r\n",
      "PUT /b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive, Upgrade\r\n\r\n",
      "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n\r\n",
      "HTTP/1.0 304 Not Modified\r\nETag: \"x\"\r\nConnection: close\r\n\r\n",
  };
  std::mt19937 random(1);
  int requests = 0;
  int responses = 0;
  for (int round = 0; round < 50'000; ++round) {
    const std::string bytes = damaged(seeds[random() % std::size(seeds)], random);
    std::size_t searched = 0;
    const std::string_view head = std::string_view(bytes).substr(0, find_head_end(bytes, searched));
    if (const auto ours = parse_request_head(head)) {
      bhttp::request_parser<bhttp::empty_body> theirs;
      ASSERT_TRUE(read_by(theirs, head)) << ::testing::PrintToString(head);
      EXPECT_EQ(ours->method, std::string_view(theirs.get().method_string()));
      if (ours->target == std::string_view(theirs.get().target())) ++requests;  // not so for absolute ones
      EXPECT_EQ(fields_of(ours->headers), fields_of(theirs)) << ::testing::PrintToString(head);
      EXPECT_EQ(ours->keep_alive, theirs.keep_alive()) << ::testing::PrintToString(head);
      EXPECT_EQ(ours->framing.kind == Framing::Kind::Chunked, theirs.chunked());
    } else if (const auto answer = parse_response_head(head, false)) {
      bhttp::response_parser<bhttp::empty_body> theirs;
      ASSERT_TRUE(read_by(theirs, head)) << ::testing::PrintToString(head);
      EXPECT_EQ(answer->status, static_cast<int>(theirs.get().result_int()));
      EXPECT_EQ(fields_of(answer->headers), fields_of(theirs)) << ::testing::PrintToString(head);
      ++responses;
    }
  }
  EXPECT_GT(requests, 1000);  // else the damage was such that nothing was compared
  EXPECT_GT(responses, 1000);
}

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

TEST(RequestHead, TheAuthorityOfAnAbsoluteTargetReplacesHost) {
  for (const char* target : {"http://evil.example:8080", "http://evil.example:8080/x", "http://evil.example:8080?q"}) {
    const auto head = parse_request_head(std::string("GET ") + target + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
    ASSERT_TRUE(head) << target;
    EXPECT_EQ(head->headers.count("Host"), 1U) << target;
    EXPECT_EQ(head->headers.get("Host"), "evil.example:8080") << target;
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
