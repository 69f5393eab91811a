#include "intercept/upstream_proxy.h"

#include "async/task_group.h"
#include "intercept/interceptor_fixture.h"

namespace osb::intercept {
namespace {

using namespace testing;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const std::string kHost = "api.example.com";

class PlainConnector final : public http::Connector {
 public:
  net::awaitable<Result<std::unique_ptr<http::Transport>>> connect(std::string origin,
                                                                   std::chrono::milliseconds timeout) override {
    return http::connect_plain(*http::Address::parse(origin.substr(std::string_view("http://").size())), timeout);
  }
};

// A proxy of the operator that leads every CONNECT to one port here.
class ThroughProxy : public InterceptorTest {
 protected:
  ~ThroughProxy() override { await(io_, tasks_.close()); }

  void start_behind_proxy(std::string authorization = "") {
    auto where = http::to_sockaddr(http::Address::tcp("127.0.0.1", 0));
    UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    ASSERT_EQ(::bind(socket.get(), where->get(), where->length), 0);
    ASSERT_EQ(::listen(socket.get(), 64), 0);
    ASSERT_EQ(::getsockname(socket.get(), where->get(), &where->length), 0);
    const auto port = ntohs(reinterpret_cast<sockaddr_in*>(where->get())->sin_port);
    tasks_.spawn("proxy", accept(std::move(socket)));
    server_port_ = destination_.port;
    destination_.port = 443;  // the server is reached by the proxy only
    InterceptorOptions options;
    options.proxy = std::make_shared<const UpstreamProxy>(
        std::make_unique<PlainConnector>(), "http://127.0.0.1:" + std::to_string(port), std::move(authorization));
    start(std::move(options));
  }

  net::awaitable<void> accept(UniqueFd socket) {
    http::Listener listener(io_.get_executor(), std::move(socket));
    for (;;) {
      auto connection = co_await listener.accept();
      if (!connection) co_return;
      tasks_.spawn("tunnel", lead(http::make_plain_transport(io_.get_executor(), std::move(*connection))));
    }
  }

  net::awaitable<void> lead(std::unique_ptr<http::Transport> client) {
    std::string head;
    std::vector<char> buffer(4096);
    while (!head.contains("\r\n\r\n")) {
      const auto got = co_await client->read_some(buffer);
      if (!got || *got == 0) co_return;
      head.append(buffer.data(), *got);
    }
    heads_.push_back(head);
    if (!co_await client->write_all(answer_) || !answer_.contains(" 200 ")) co_return;
    auto server = co_await http::connect_plain(http::Address::tcp("127.0.0.1", server_port_), 20s);
    if (!server) co_return;
    http::PipePool pipes;
    (void)co_await http::splice(*client, **server, pipes);
  }

  void serve_host() {
    serve(
        [this](http::Request& request) -> net::awaitable<http::Response> {
          seen_.push_back(request.method + " " + std::string(request.headers.get("Authorization")));
          co_return http::text_response(200, "served");
        },
        &good_);
  }

  TaskGroup tasks_{io_.get_executor()};
  std::string answer_ = "HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n";
  std::uint16_t server_port_ = 0;
  std::vector<std::string> heads_, seen_;
  Certificate good_ = certificate_for(kHost);
};

TEST_F(ThroughProxy, SplicedConnectionsAreAskedForByName) {
  serve_host();
  start_behind_proxy();
  auto made = await(io_, dial_tls(kHost, world_trust_));
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_THAT(talk(**made, get(kHost)), AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("served")));
  EXPECT_THAT(heads_, ElementsAre("CONNECT " + kHost + ":443 HTTP/1.1\r\nHost: " + kHost + ":443\r\n\r\n"));
}

TEST_F(ThroughProxy, OpenedConnectionsGoTheSameWayAndTheServerIsVerifiedBehindIt) {
  serve_host();
  rules_.bound[kHost] = "Bearer x";
  start_behind_proxy("Basic c2VjcmV0");
  EXPECT_THAT(ask(kHost, get(kHost)), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(heads_, ElementsAre(HasSubstr("\r\nProxy-Authorization: Basic c2VjcmV0\r\n")));
  EXPECT_THAT(seen_, ElementsAre("GET Bearer x"));
}

TEST_F(ThroughProxy, AServerWithoutAGoodCertificateBehindTheProxyGetsNothing) {
  const Certificate other = certificate_for("evil.example.com");
  serve(
      [this](http::Request&) -> net::awaitable<http::Response> {
        seen_.emplace_back("request");
        co_return http::text_response(200, "served");
      },
      &other);
  rules_.bound[kHost] = "Bearer x";
  start_behind_proxy();
  EXPECT_THAT(ask(kHost, get(kHost)), StartsWith("HTTP/1.1 502"));
  EXPECT_THAT(seen_, ElementsAre());
}

TEST_F(ThroughProxy, AProxyThatRefusesIsNamedAndItsSecretIsNot) {
  serve_host();
  rules_.bound[kHost] = "Bearer x";
  start_behind_proxy("Basic c2VjcmV0");
  for (const auto& [answer, said] : {std::pair("HTTP/1.1 407 Who\r\n\r\n", "answered 407: check its authorization"),
                                     {"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n", "answered 403"},
                                     {"SSH-2.0-x\r\n\r\n", "answered 0"}}) {
    answer_ = answer;
    const std::string got = ask(kHost, get(kHost));
    EXPECT_THAT(got, AllOf(StartsWith("HTTP/1.1 502"), HasSubstr("proxy http://127.0.0.1:"), HasSubstr(said),
                           Not(HasSubstr("c2VjcmV0"))));
  }
  EXPECT_THAT(seen_, ElementsAre());
}

TEST_F(ThroughProxy, NothingGoesPastAProxyThatIsAway) {
  serve_host();
  start_behind_proxy();
  answer_ = "HTTP/1.1 503 Away\r\n\r\n";
  auto made = await(io_, dial_tls(kHost, world_trust_));
  EXPECT_FALSE(made);
  EXPECT_THAT(rules_.failures, ElementsAre(HasSubstr("answered 503")));
  EXPECT_THAT(seen_, ElementsAre());
}

}  // namespace
}  // namespace osb::intercept
