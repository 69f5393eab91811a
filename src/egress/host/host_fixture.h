#pragma once

#include <deque>
#include <map>
#include <string>
#include <sys/socket.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/json/parse.hpp>
#include <gtest/gtest.h>

#include "api/egress_link.h"
#include "async/frame_socket.h"
#include "async/timer.h"
#include "egress/host/host_service.h"
#include "egress/proxy/name_server_fixture.h"
#include "http/transport.h"
#include "support/await.h"

namespace osb::egress::testing {

namespace link = api::egress;
using osb::testing::await;

// The egress process of a host, served on the test's loop. The test has sandboxd's end of the link. Addresses of
// 127.0.0.0/8 stand for sandboxes.
class HostTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    sandboxd_.emplace(*FrameSocket::open(io_.get_executor(), UniqueFd(ends[0])));
    HostOptions options{
        .link = UniqueFd(ends[1]), .udp = bind_to(SOCK_DGRAM), .tcp = bind_to(SOCK_STREAM), .vault = vault_options()};
    net::co_spawn(
        io_,
        [](HostTest& test, HostOptions given) -> net::awaitable<void> {
          test.ended_with_ = co_await serve_host(std::move(given), test.never());
          test.ended_.set();
        }(*this, std::move(options)),
        net::detached);
    expect<link::Ready>();
    auto first = hello();
    first.resolvers = {format_endpoint(server_.endpoint())};
    send(first);
    send(link::OverlayTexts{"", ""});
  }
  void TearDown() override {
    sandboxd_.reset();
    await(io_, [](HostTest& test) -> net::awaitable<void> { (void)co_await test.ended_.wait(); }(*this));
    EXPECT_TRUE(ended_with_) << ended_with_.error().message;
  }

  virtual link::Hello hello() { return {}; }
  virtual VaultOptions vault_options() { return {}; }

  void add_sandbox(const std::string& id, const std::string& address, std::string_view policy,
                   std::uint64_t revision = 1, bool audit = false) {
    send(link::SandboxPolicy{id, *parse_ip_address(address), revision, boost::json::parse(policy).as_object(),
                             "token-of-" + id, audit});
  }

  template <typename T>
  void send(T message) {
    ASSERT_TRUE(sandboxd_->send(link::encode(link::ToEgress(std::move(message)))));
  }
  void send_descriptor(const link::Connection& message, UniqueFd descriptor) {
    ASSERT_TRUE(sandboxd_->send(link::encode(link::ToEgress(message)), std::move(descriptor)));
  }
  // The next message of the egress process, which has to be a T.
  template <typename T>
  T expect() {
    auto frame = await(io_, sandboxd_->read());
    EXPECT_TRUE(frame && *frame);
    if (!frame || !*frame) return {};
    auto message = link::decode_to_sandboxd((*frame)->body);
    EXPECT_TRUE(message && std::holds_alternative<T>(*message)) << (*frame)->body;
    return message && std::holds_alternative<T>(*message) ? std::get<T>(std::move(*message)) : T{};
  }
  // Opens what is asked for.
  link::OpenAddresses grant() {
    auto open = expect<link::OpenAddresses>();
    send(link::Answer{open.seq, open.revision, link::Answer::Problem::None, ""});
    return open;
  }

  // A socket of a sandbox, connected to the proxy.
  UniqueFd socket_of(const std::string& address, int type = SOCK_DGRAM) {
    UniqueFd fd(::socket(AF_INET, type | SOCK_CLOEXEC, 0));
    const SocketAddress own({*parse_ip_address(address), 0});
    EXPECT_EQ(::bind(fd.get(), &own.any, own.size), 0);
    const SocketAddress to(type == SOCK_DGRAM ? udp_at_ : tcp_at_);
    EXPECT_EQ(::connect(fd.get(), &to.any, to.size), 0);
    return fd;
  }
  void ask(const UniqueFd& socket, std::string_view name, RecordType type = RecordType::A) {
    const std::string message = question(name, type);
    ASSERT_EQ(::send(socket.get(), message.data(), message.size(), 0), static_cast<ssize_t>(message.size()));
  }
  // Waits for the next packet.
  Response answer(const UniqueFd& socket) {
    auto transport = http::make_plain_transport(io_.get_executor(), UniqueFd(::dup(socket.get())));
    std::array<char, 4096> buffer;
    const auto got = await(io_, transport->read_some(buffer));
    EXPECT_TRUE(got && *got > 0);
    auto response = got ? parse_response({buffer.data(), *got}) : std::nullopt;
    EXPECT_TRUE(response);
    return response.value_or(Response{});
  }
  // All that a stream still brings.
  std::string read_to_end(const UniqueFd& socket) {
    auto transport = http::make_plain_transport(io_.get_executor(), UniqueFd(::dup(socket.get())));
    std::string in;
    std::array<char, 4096> buffer;
    for (;;) {
      const auto got = await(io_, transport->read_some(buffer));
      EXPECT_TRUE(got);
      if (!got || *got == 0) return in;
      in.append(buffer.data(), *got);
    }
  }
  // Runs the loop until a question that was answered without enforcement has come back: everything before it is done.
  void settle() {
    if (!settled_) {
      settled_ = true;
      add_sandbox("settle", "127.0.0.99", R"({"defaultAction":"deny"})");
    }
    const UniqueFd socket = socket_of("127.0.0.99");
    ask(socket, "barrier.test");
    (void)answer(socket);
  }

  net::io_context io_{1};
  NameServer server_;
  std::optional<FrameSocket> sandboxd_;
  Endpoint udp_at_, tcp_at_;
  Result<void> ended_with_;
  Event ended_{io_.get_executor()};

 private:
  UniqueFd bind_to(int type) {
    UniqueFd fd(::socket(AF_INET, type | SOCK_CLOEXEC, 0));
    SocketAddress address(Endpoint{*parse_ip_address("127.0.0.1"), 0});
    EXPECT_EQ(::bind(fd.get(), &address.any, address.size), 0);
    if (type == SOCK_STREAM) ::listen(fd.get(), 16);
    ::getsockname(fd.get(), &address.any, &address.size);
    (type == SOCK_DGRAM ? udp_at_ : tcp_at_) = {address.ip(), ntohs(address.v4.sin_port)};
    return fd;
  }
  net::awaitable<void> never() { (void)co_await never_.wait(); }
  Event never_{io_.get_executor()};
  bool settled_ = false;
};

inline constexpr std::string_view kAllowExample = R"({"egress":[{"action":"allow","target":"*.example.com"}]})";

}  // namespace osb::egress::testing
