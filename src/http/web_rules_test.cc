#include "http/web_rules.h"

#include <gtest/gtest.h>

namespace osb::http {
namespace {

TEST(SplitHost, HostsAreNamesAndAddressesWithAnOptionalPort) {
  const struct {
    const char* text;
    const char* name;
    const char* port;
  } rows[] = {
      {"box.example.com", "box.example.com", ""},
      {"box.example.com:8080", "box.example.com", "8080"},
      {"box.example.com.:80", "box.example.com", "80"},
      {"[::1]:8080", "::1", "8080"},
      {"127.0.0.1:1", "127.0.0.1", "1"},
      {"a_b-c", "a_b-c", ""},
      {"localhost:", "localhost", ""},
  };
  for (const auto& row : rows) {
    const auto split = split_host(row.text);
    ASSERT_TRUE(split) << row.text;
    EXPECT_EQ(split->name, row.name) << row.text;
    EXPECT_EQ(split->port, row.port) << row.text;
  }
  for (const char* wrong : {"",
                            ".",
                            "..",
                            "a..",
                            ":80",
                            "user@localhost",
                            "localhost@evil.com",
                            "localhost/",
                            "a b",
                            "a,b",
                            "localhost:80@evil.com",
                            "[::1",
                            "[::1]x",
                            "[evil.com]",
                            "[::1%eth0]",
                            "::1",
                            "a:b",
                            "a:123456",
                            "a:80:80",
                            "loc\xc3\xa4lhost",
                            "a%2eb"}) {
    EXPECT_FALSE(split_host(wrong)) << wrong;
  }
}

TEST(LoopbackHost, OnlyNamesOfThisMachineAre) {
  for (const char* host : {"localhost", "LOCALHOST:80", "localhost.", "localhost.:8080", "127.0.0.1", "127.1.2.3:8000",
                           "[::1]:8000", "::1", "[::ffff:127.0.0.1]:80", "[0:0:0:0:0:0:0:1]"}) {
    EXPECT_TRUE(is_loopback_host(host)) << host;
  }
  for (const char* host : {"",
                           "localhost.evil.com",
                           "127.0.0.1.evil.com",
                           "evil.com",
                           "127.evil.com",
                           "[::2]",
                           "0.0.0.0",
                           "[::]",
                           "x.localhost",
                           "notlocalhost",
                           "localhost:80:80",
                           "localhost@evil.com",
                           "evil.com#localhost",
                           "128.0.0.1",
                           "[::ffff:10.0.0.1]",
                           "127.0.0.1:80.evil.com",
                           "127.1",
                           "2130706433",
                           "0x7f000001",
                           "169.254.169.254"}) {
    EXPECT_FALSE(is_loopback_host(host)) << host;
  }
}

TEST(LoopbackHost, NamesBelowLocalhostAreOfThisMachineToo) {
  for (const char* host : {"a.localhost", "a.b.LocalHost:8080", "a.localhost."}) {
    EXPECT_TRUE(is_below_localhost(host)) << host;
  }
  for (const char* host : {"localhost", ".localhost", "alocalhost", "a.localhost.evil.com", "a@b.localhost", ""}) {
    EXPECT_FALSE(is_below_localhost(host)) << host;
  }
}

TEST(WebRules, AllowedHostsAddToThisMachine) {
  const WebRules rules{.hosts = {"box.example.com", "*.lan", "fd00::1"}};
  for (const char* host : {"box.example.com", "BOX.example.com.:80", "a.lan", "a.b.lan:1", "localhost",
                           "a.localhost:8080", "[fd00::1]:8080"}) {
    EXPECT_TRUE(rules.allows_host(host)) << host;
  }
  for (const char* host : {"", "example.com", "a.box.example.com", "lan", ".lan", "evil.com",
                           "box.example.com.evil.com", "box.example.com@evil.com", "*.lan.evil.com"}) {
    EXPECT_FALSE(rules.allows_host(host)) << host;
  }
  EXPECT_TRUE((WebRules{.check_host = false}).allows_host("anything.example.com"));
}

TEST(WebRules, AnOriginIsTheServersOwnOrListed) {
  const WebRules rules{.origins = {"https://chat.example.com"}};
  const struct {
    const char* why;
    const char* origin;
    const char* host;
    bool want;
  } rows[] = {
      {"the page came from here", "http://localhost:8080", "localhost:8080", true},
      {"a default port is written or not", "http://box", "box:80", true},
      {"TLS ends in front of the server", "https://box", "box", true},
      {"IPv6", "http://[::1]:8080", "[::1]:8080", true},
      {"letter case", "http://LOCALHOST:8080", "localhost:8080", true},
      {"listed", "https://chat.example.com", "localhost:8080", true},
      {"another port is another server", "http://localhost:3000", "localhost:8080", false},
      {"another name of the machine", "http://127.0.0.1:8080", "localhost:8080", false},
      {"a page of a sandbox", "http://id-80.localhost:8080", "localhost:8080", false},
      {"a name that begins like ours", "http://localhost:8080.evil.com", "localhost:8080", false},
      {"listed, other scheme", "http://chat.example.com", "localhost:8080", false},
      {"a sandboxed page or a file", "null", "localhost:8080", false},
      {"an extension", "chrome-extension://abc", "abc", false},
      {"empty", "", "localhost:8080", false},
      {"two", "http://localhost:8080 http://evil.com", "localhost:8080", false},
      {"no host at all", "http://", "", false},
  };
  for (const auto& row : rows) EXPECT_EQ(rules.allows_origin(row.origin, row.host), row.want) << row.why;
}

TEST(WebRules, LoopbackOriginsAreServersOfThisMachineButNoSandbox) {
  const WebRules rules{.loopback_origins = true};
  for (const char* origin : {"http://localhost:3000", "https://127.0.0.1", "http://[::1]:6274"}) {
    EXPECT_TRUE(rules.allows_origin(origin, "localhost:8000")) << origin;
  }
  for (const char* origin : {"http://id-80.localhost:8080", "null", "http://evil.com", "http://localhost@evil.com"}) {
    EXPECT_FALSE(rules.allows_origin(origin, "localhost:8000")) << origin;
  }
}

TEST(WebRules, AStarAllowsEveryOriginAndNamesNone) {
  const WebRules rules{.origins = {"*"}};
  EXPECT_TRUE(rules.allows_origin("https://any.example.com", "box"));
  EXPECT_FALSE(rules.names_origin("https://any.example.com"));
}

TEST(ContentTypes, JsonAndFormsAreToldApart) {
  for (const char* type : {"application/json", "Application/JSON; charset=utf-8", "application/merge-patch+json"}) {
    EXPECT_TRUE(is_json_type(type)) << type;
    EXPECT_FALSE(is_form_type(type)) << type;
  }
  for (const char* type : {"", "text/plain", "TEXT/PLAIN;charset=utf-8", "multipart/form-data; boundary=x",
                           "application/x-www-form-urlencoded", "text/plain; application/json", "+json"}) {
    EXPECT_FALSE(is_json_type(type)) << type;
  }
  for (const char* type : {"", " ", "text/plain", "TEXT/PLAIN;charset=utf-8", "multipart/form-data; boundary=x",
                           "application/x-www-form-urlencoded", "application/x-tar, text/plain"}) {
    EXPECT_TRUE(is_form_type(type)) << type;
  }
  EXPECT_FALSE(is_form_type("application/x-tar"));
}

TEST(BackgroundRequest, LinksAreFollowedAndScriptsOfOtherSitesAreNot) {
  const struct {
    const char* why;
    const char* method;
    const char* site;
    const char* mode;
    const char* dest;
    bool want;
  } rows[] = {
      {"no browser", "POST", "", "", "", false},
      {"typed by the user", "GET", "none", "navigate", "document", false},
      {"the server's own page", "POST", "same-origin", "cors", "empty", false},
      {"a link", "GET", "cross-site", "navigate", "document", false},
      {"a form", "POST", "cross-site", "navigate", "document", true},
      {"an image", "GET", "cross-site", "no-cors", "image", true},
      {"a frame", "GET", "cross-site", "navigate", "iframe", true},
      {"another port of this machine", "GET", "same-site", "cors", "empty", true},
  };
  for (const auto& row : rows) {
    Request request;
    request.method = row.method;
    if (*row.site != '\0')
      request.headers = {{"Sec-Fetch-Site", row.site}, {"Sec-Fetch-Mode", row.mode}, {"Sec-Fetch-Dest", row.dest}};
    EXPECT_EQ(is_background_request_of_other_site(request), row.want) << row.why;
  }
}

}  // namespace
}  // namespace osb::http
