#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "egress/host/host_fixture.h"

namespace osb::egress::testing {

struct Answered {
  int status = 0;
  std::string head;
  std::string body;

  bool has(std::string_view line) const { return head.contains(std::string(line) + "\r\n"); }
};

// A sandbox "a" at 127.0.0.2, and requests to its API as sandboxd hands them over.
class HostApi : public HostTest {
 protected:
  void SetUp() override {
    HostTest::SetUp();
    add_sandbox("a", "127.0.0.2", kAllowExample, 7);
  }
  UniqueFd connect(const std::string& id) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    send_descriptor(link::Connection{id}, UniqueFd(ends[0]));
    return UniqueFd(ends[1]);
  }
  static std::string request(std::string_view method, std::string_view path, std::string_view body = "",
                             std::string_view token = "token-of-a") {
    std::string out = std::string(method) + " " + std::string(path) + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n";
    if (!token.empty()) out += "OPENSANDBOX-EGRESS-AUTH: " + std::string(token) + "\r\n";
    return out + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
  }
  // Sends a request. The test may answer messages on the link before it asks for the response.
  std::unique_ptr<http::Transport> begin(std::string_view text, const std::string& id = "a") {
    auto transport = http::make_plain_transport(io_.get_executor(), connect(id));
    EXPECT_TRUE(await(io_, transport->write_all(text)));
    return transport;
  }
  Answered finish(http::Transport& transport) {
    std::string all;
    std::array<char, 4096> buffer;
    for (;;) {
      const auto got = await(io_, transport.read_some(buffer));
      if (!got || *got == 0) break;
      all.append(buffer.data(), *got);
    }
    Answered out;
    const auto end = all.find("\r\n\r\n");
    EXPECT_NE(end, std::string::npos) << all;
    if (end == std::string::npos) return out;
    out.head = all.substr(0, end + 2);
    out.body = all.substr(end + 4);
    out.status = std::stoi(all.substr(9, 3));
    return out;
  }
  Answered call(std::string_view text, const std::string& id = "a") { return finish(*begin(text, id)); }
  // sandboxd enforces a change.
  link::SetPolicy enforce() {
    auto set = expect<link::SetPolicy>();
    send(
        link::SandboxPolicy{set.id, *parse_ip_address("127.0.0.2"), set.revision + 1, set.policy, "token-of-a", false});
    send(link::Answer{set.seq, set.revision + 1, link::Answer::Problem::None, ""});
    return set;
  }
};

}  // namespace osb::egress::testing
