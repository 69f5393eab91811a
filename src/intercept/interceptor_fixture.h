#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "http/client.h"
#include "http/listener.h"
#include "http/server.h"
#include "http/socket_address.h"
#include "intercept/interceptor.h"
#include "support/await.h"
#include "tls/server.h"
#include "tls/test_certificates.h"
#include "tls/transport.h"

namespace osb::intercept::testing {

using namespace std::chrono_literals;
using osb::testing::await;
using tls::testing::Certificate;

inline const IpAddress kLoopback = *parse_ip_address("127.0.0.1");
inline constexpr std::string_view kSecret = "s3cret-that-stays-outside";

// Bound hosts get a header with the secret. Hosts are allowed unless they are in `denied`.
class TableRules final : public Rules {
 public:
  std::map<std::string, std::string> bound;  // host: value of its Authorization header
  std::set<std::string> denied;
  std::vector<IpAddress> addresses = {kLoopback};
  std::optional<std::string> answer;  // to every request, instead of passing it on
  std::string denied_path;            // requests for it are answered with 403
  std::optional<std::string> target;  // of requests to bound hosts, in the place of their own
  bool scrub_bodies = false, scrub_requests = false;
  std::vector<std::string> failures;  // of connections
  std::function<void()> on_failed;
  std::vector<std::pair<std::string, int>> served;  // host and status

  Admission admit(const Flow&, Protocol, const std::optional<std::string>& name) override {
    if (name && denied.contains(*name)) return {Admission::Kind::Refuse, "the policy denies " + *name};
    return {name && bound.contains(*name) ? Admission::Kind::Open : Admission::Kind::Splice, ""};
  }
  Verdict judge(const Flow&, std::string_view, std::string_view host, const http::Request&) override;
  net::awaitable<Result<std::vector<IpAddress>>> resolve(IpAddress, std::string) override { co_return addresses; }
  void finished(const Flow&, const Verdict&, const Outcome& outcome) override {
    served.emplace_back(outcome.host, outcome.status);
  }
  void failed(const Flow&, std::string_view host, std::string_view why) override {
    failures.push_back(std::string(host) + ": " + std::string(why));
    if (on_failed) on_failed();
  }
};

// Replaces the secret in a stream, also where pieces cut it apart.
class SecretFilter final : public StreamFilter {
 public:
  void write(std::string_view piece, std::string& out) override {
    held_ += piece;
    for (std::size_t at; (at = held_.find(kSecret)) != std::string::npos;)
      held_.replace(at, kSecret.size(), "[REDACTED]");
    const std::size_t sure = held_.size() - std::min(held_.size(), kSecret.size() - 1);
    out += held_.substr(0, sure);
    held_.erase(0, sure);
  }
  void finish(std::string& out) override { out += std::exchange(held_, {}); }

 private:
  std::string held_;
};

inline Verdict TableRules::judge(const Flow&, std::string_view, std::string_view host, const http::Request& request) {
  Verdict verdict;
  const auto found = bound.find(std::string(host));
  if (answer || (!denied_path.empty() && request.target == denied_path)) {
    verdict.status = 403;
    verdict.message = answer.value_or("not this path");
  } else if (found == bound.end()) {
    verdict.kind = Verdict::Kind::Forward;
  } else {
    verdict.kind = Verdict::Kind::Edit;
    verdict.headers.set("Authorization", found->second);
    verdict.subject = "credential binding test";
    verdict.clean_value = [](std::string& value) {
      if (const auto at = value.find(kSecret); at != std::string::npos) value.replace(at, kSecret.size(), "[REDACTED]");
    };
    verdict.target = target;
    if (scrub_requests) verdict.filter_request = [] { return std::make_unique<SecretFilter>(); };
    if (scrub_bodies) verdict.filter_answer = [] { return std::make_unique<SecretFilter>(); };
  }
  return verdict;
}

// A sandbox's client, an interceptor and the internet behind it, on one loop. Nothing is redirected: clients connect to
// the interceptor, and `destination_` is the place that they believe in.
class InterceptorTest : public ::testing::Test {
 protected:
  InterceptorTest()
      : leaves_(*tls::CertificateAuthority::create()),
        root_({.common_name = "root", .alt_names = "", .authority = true}) {
    sandbox_trust_ = trusting(leaves_.authority().certificate_pem());
    world_trust_ = trusting(root_.certificate_pem());
    destination_.sandbox = *parse_ip_address("127.0.0.1");
    destination_.destination = kLoopback;
  }
  ~InterceptorTest() override {
    if (interceptor_) await(io_, interceptor_->close());
    for (auto& server : servers_) await(io_, server->stop(0ms));
    interceptor_.reset();
    servers_.clear();
    io_.restart();
    io_.poll();
  }

  static std::shared_ptr<const tls::ClientContext> trusting(const std::string& pem) {
    tls::ClientOptions options;
    options.ca_pem = pem;
    return *tls::ClientContext::make(options);
  }
  Certificate certificate_for(const std::string& host) {
    return Certificate({.common_name = "server", .alt_names = "DNS:" + host}, &root_);
  }

  // A server of the internet; becomes the destination of connections. Without a certificate it speaks plain HTTP.
  std::uint16_t serve(http::Handler handler, const Certificate* certificate) {
    http::ServerOptions options;
    if (certificate != nullptr) options.secure = tls::secure_with(*tls::ServerContext::make(certificate->identity()));
    servers_.push_back(std::make_unique<http::Server>(io_.get_executor(), std::move(handler), std::move(options)));
    const auto bound = servers_.back()->listen(http::Address::tcp("127.0.0.1", 0));
    EXPECT_TRUE(bound);
    destination_.port = bound->port;
    return bound->port;
  }

  void start(InterceptorOptions options = {}) { start(std::move(options), rules_); }
  void start(InterceptorOptions options, Rules& rules) {
    options.flow_of = [this](int) -> Result<Flow> { return destination_; };
    interceptor_.emplace(io_.get_executor(), rules, leaves_, world_trust_, std::move(options));
    auto where = http::to_sockaddr(http::Address::tcp("127.0.0.1", 0));
    UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    ASSERT_EQ(::bind(listener.get(), where->get(), where->length), 0);
    ASSERT_EQ(::listen(listener.get(), 64), 0);
    ASSERT_EQ(::getsockname(listener.get(), where->get(), &where->length), 0);
    at_ = http::Address::tcp("127.0.0.1", ntohs(reinterpret_cast<sockaddr_in*>(where->get())->sin_port));
    interceptor_->listen(std::move(listener));
  }

  using Connected = Result<std::unique_ptr<http::Transport>>;
  net::awaitable<Connected> dial_tls(std::string host, std::shared_ptr<const tls::ClientContext> trust) {
    auto plain = co_await http::connect_plain(at_, 20s);
    if (!plain) co_return plain;
    co_return co_await tls::connect_tls(std::move(trust), std::move(*plain), std::move(host), 20s);
  }
  // A connection of the sandbox: over TLS with `host` in SNI, trusting our authority; plain for an empty host.
  std::unique_ptr<http::Transport> dial(const std::string& host) {
    auto made = await(io_, host.empty() ? http::connect_plain(at_, 20s) : dial_tls(host, sandbox_trust_));
    EXPECT_TRUE(made) << made.error().message;
    return made ? std::move(*made) : nullptr;
  }
  // Sends bytes and reads to the end of the stream.
  std::string talk(http::Transport& transport, std::string bytes) {
    return await(io_, [](http::Transport& to, std::string text) -> net::awaitable<std::string> {
      std::string out;
      if (!co_await to.write_all(text)) co_return out;
      std::vector<char> buffer(16 * 1024);
      for (;;) {
        auto got = co_await to.read_some(buffer);
        if (!got || *got == 0) co_return out;
        out.append(buffer.data(), *got);
      }
    }(transport, std::move(bytes)));
  }
  // A whole conversation of one request.
  std::string ask(const std::string& host, const std::string& request) { return talk(*dial(host), request); }
  static std::string get(const std::string& host, const std::string& more = "") {
    return "GET /path HTTP/1.1\r\nHost: " + host + "\r\n" + more + "Connection: close\r\n\r\n";
  }

  // A stream of pieces that the handler makes as it goes.
  static http::Response stream(std::move_only_function<net::awaitable<Result<void>>(http::BodyWriter&)> produce) {
    http::Response response;
    response.body = http::StreamBody{.produce = std::move(produce), .length = std::nullopt};
    return response;
  }

  net::io_context io_{1};
  TableRules rules_;
  tls::LeafContexts leaves_;
  Certificate root_;  // trusted by the world, not by the sandbox
  std::shared_ptr<const tls::ClientContext> sandbox_trust_, world_trust_;
  Flow destination_;
  http::Address at_;
  std::vector<std::unique_ptr<http::Server>> servers_;
  std::optional<Interceptor> interceptor_;
};

}  // namespace osb::intercept::testing
