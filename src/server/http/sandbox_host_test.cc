#include "server/http/sandbox_host.h"

#include <gtest/gtest.h>

namespace osb::server {
namespace {

constexpr char kId[] = "3f2504e0-4f89-11d3-9a0c-0305e82c3301";

TEST(SandboxHost, TheLabelIsIdAndPort) {
  const struct {
    const char* why;
    std::string host;
    const char* id;
    int port;
  } rows[] = {
      {"a UUID", std::string(kId) + "-8000.localhost:8080", kId, 8000},
      {"no port of the server", "abc-80.localhost", "abc", 80},
      {"letter case", "ABC-80.LocalHost", "abc", 80},
      {"a final dot", "abc-80.localhost.:8080", "abc", 80},
      {"names below are the sandbox's too", "x.y.abc-80.localhost", "abc", 80},
      {"the last port", "abc-65535.localhost", "abc", 65535},
  };
  for (const auto& row : rows) {
    const auto found = parse_sandbox_host(row.host, "localhost");
    ASSERT_TRUE(found) << row.why;
    EXPECT_EQ(found->id, row.id) << row.why;
    EXPECT_EQ(found->port, row.port) << row.why;
  }
}

TEST(SandboxHost, OtherHostsAreTheServers) {
  for (const char* host : {"localhost", "localhost:8080", "127.0.0.1", "abc.localhost", "-80.localhost",
                           "abc-.localhost", "abc-0.localhost", "abc-080.localhost", "abc-65536.localhost",
                           "abc-+80.localhost", "abc-80", "abc-80.localhost.evil.com", "abc-80localhost",
                           "abc-80.notlocalhost", "u@abc-80.localhost", ".localhost", "abc-80x.localhost", ""}) {
    EXPECT_FALSE(parse_sandbox_host(host, "localhost")) << host;
  }
  EXPECT_FALSE(parse_sandbox_host("abc-80.localhost", ""));
  EXPECT_FALSE(parse_sandbox_host("abc-80.localhost", "box.example.com"));
  EXPECT_TRUE(parse_sandbox_host("abc-80.box.example.com", "box.example.com"));
}

TEST(SandboxHost, UrlsAreForClientsThatReachTheDomain) {
  EXPECT_EQ(sandbox_url("abc", 80, "127.0.0.1:8080", "localhost"), "http://abc-80.localhost:8080/");
  EXPECT_EQ(sandbox_url("abc", 80, "[::1]:8080", "localhost"), "http://abc-80.localhost:8080/");
  EXPECT_EQ(sandbox_url("abc", 80, "localhost", "localhost"), "http://abc-80.localhost/");
  EXPECT_EQ(sandbox_url("abc", 80, "box.example.com", "localhost"), "") << "that would be the browser's machine";
  EXPECT_EQ(sandbox_url("abc", 80, "box.example.com:81", "s.example.com"), "http://abc-80.s.example.com:81/");
  EXPECT_EQ(sandbox_url("abc", 80, "localhost", ""), "");
  EXPECT_EQ(sandbox_url("a.b", 80, "localhost", "localhost"), "");
  EXPECT_EQ(sandbox_url("Abc", 80, "localhost", "localhost"), "") << "a browser would ask for abc";
  EXPECT_EQ(sandbox_url(std::string(62, 'a'), 80, "localhost", "localhost"), "");
}

}  // namespace
}  // namespace osb::server
