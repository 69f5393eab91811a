#include "egress/intercept/sandbox_rules.h"

#include "egress/proxy/name_server_fixture.h"
#include "intercept/interceptor_fixture.h"
#include "vault/vault_fixture.h"

namespace osb::egress {
namespace {

using intercept::Admission;
using intercept::Protocol;
using osb::testing::await;
using testing::a;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const IpAddress kSandbox = *parse_ip_address("10.88.0.7");
const IpAddress kPublic = *parse_ip_address("93.184.216.34");
// The test's servers are on loopback, which only a rule for the address opens.
constexpr std::string_view kWithLoopback =
    R"({"defaultAction":"deny","egress":[{"action":"allow","target":"*.example.com"},{"action":"allow","target":"127.0.0.1"}]})";

// A vault, a policy, a name server and a TLS server behind a real interceptor.
class SandboxRulesTest : public intercept::testing::InterceptorTest {
 protected:
  SandboxRulesTest() : upstreams_(io_.get_executor(), {}), resolver_(upstreams_, cache_, clock_) {
    upstreams_.set_servers({server_.endpoint()});
    destination_ = {kSandbox, kPublic, 443};
    set_policy(kWithLoopback);
  }
  ~SandboxRulesTest() override {
    if (interceptor_) await(io_, interceptor_->close());
    interceptor_.reset();
    await(io_, upstreams_.close());
  }

  void set_policy(std::string_view text, bool audit = false) {
    sandboxes_.set("sbx", kSandbox, ++revision_, *policy::parse_policy(text), "token", audit);
  }
  void fill(const std::string& body) {
    const auto vault = vault::testing::make_vault(body, kWithLoopback);
    ASSERT_TRUE(vault) << vault.error().message;
    const auto injector = vault->injector();
    ASSERT_TRUE(injector) << injector.error().message;
    sandboxes_.by_id("sbx")->injector = *injector;
  }
  Admission::Kind admit(Protocol protocol, std::optional<std::string> name, const IpAddress& to = kPublic) {
    return rules_of_sandbox_.admit({kSandbox, to, 443}, protocol, name).kind;
  }
  // A server that port 443 of every address leads to.
  void serve_tls() {
    const auto certificate = certificate_for("api.example.com");
    const std::uint16_t real = serve(
        [this](http::Request& request) -> net::awaitable<http::Response> {
          const auto body = co_await request.body->read_all(1 << 20);
          seen_.push_back(request.target + " " + std::string(request.headers.get("Authorization")) + body.value_or(""));
          auto response = http::text_response(200, "fine");
          response.headers.add("X-Echo", std::string(request.headers.get("Authorization")));
          co_return response;
        },
        &certificate);
    destination_.port = 443;
    intercept::InterceptorOptions options;
    options.dial = [real, this](IpAddress address, std::uint16_t, std::chrono::milliseconds timeout) {
      dialled_.push_back(format_ip_address(address));
      return intercept::plain_dial()(address, real, timeout);
    };
    start(std::move(options), rules_of_sandbox_);
  }

  FakeClock clock_;
  testing::NameServer server_;
  Upstreams upstreams_;
  AnswerCache cache_;
  Resolver resolver_;
  Sandboxes sandboxes_{io_.get_executor()};
  std::vector<std::string> audited_, seen_, dialled_;
  SandboxRules rules_of_sandbox_{
      io_.get_executor(),
      sandboxes_,
      resolver_,
      clock_,
      {},
      [this](const Sandbox& sandbox, const vault::Decision& decision, const intercept::Rules::Outcome& outcome) {
        audited_.push_back(sandbox.id + " " + decision.binding + " " + std::string(vault::to_string(decision.outcome)) +
                           " " + std::to_string(outcome.status));
      }};
  std::uint64_t revision_ = 0;
};

TEST_F(SandboxRulesTest, ConnectionsPassByNameAndAddress) {
  using enum Admission::Kind;
  set_policy(R"({"defaultAction":"deny","egress":[{"action":"allow","target":"*.example.com"},
                 {"action":"allow","target":"198.51.100.7"},{"action":"deny","target":"93.184.216.99"}]})");
  Sandbox& sandbox = *sandboxes_.by_id("sbx");
  EXPECT_EQ(admit(Protocol::Tls, "api.example.com"), Refuse) << "no name has led to this address";
  sandbox.opened.opened(kPublic, std::chrono::seconds(60), "api.example.com", clock_.steady_now());
  EXPECT_EQ(admit(Protocol::Tls, "api.example.com"), Splice);
  EXPECT_EQ(admit(Protocol::Tls, "other.org"), Refuse) << "another name at the same address";
  EXPECT_EQ(admit(Protocol::Tls, std::nullopt), Refuse) << "no name could be any name at that address";
  EXPECT_EQ(admit(Protocol::Other, std::nullopt), Refuse);
  const IpAddress by_rule = *parse_ip_address("198.51.100.7");
  EXPECT_EQ(admit(Protocol::Other, std::nullopt, by_rule), Splice) << "the address itself is allowed";
  EXPECT_EQ(admit(Protocol::Tls, "other.org", by_rule), Refuse);
  const IpAddress denied = *parse_ip_address("93.184.216.99");
  sandbox.opened.opened(denied, std::chrono::seconds(60), "api.example.com", clock_.steady_now());
  EXPECT_EQ(admit(Protocol::Tls, "api.example.com", denied), Refuse);
  EXPECT_EQ(admit(Protocol::Tls, "api.example.com", *parse_ip_address("169.254.169.254")), Refuse);
  clock_.advance(std::chrono::seconds(61));
  EXPECT_EQ(admit(Protocol::Tls, "api.example.com"), Refuse) << "the address is closed again";
  EXPECT_EQ(
      rules_of_sandbox_.admit({*parse_ip_address("10.88.0.8"), kPublic, 443}, Protocol::Tls, "api.example.com").kind,
      Refuse)
      << "no sandbox of ours";
}

TEST_F(SandboxRulesTest, AnOpenPolicyStillKeepsPrivateAddressesClosed) {
  using enum Admission::Kind;
  set_policy(R"({"defaultAction":"allow","egress":[{"action":"deny","target":"bad.example.com"}]})");
  EXPECT_EQ(admit(Protocol::Tls, "anything.org"), Splice);
  EXPECT_EQ(admit(Protocol::Other, std::nullopt), Splice);
  EXPECT_EQ(admit(Protocol::Tls, "bad.example.com"), Refuse);
  for (const char* address : {"127.0.0.1", "10.0.0.1", "169.254.169.254"}) {
    EXPECT_EQ(admit(Protocol::Tls, "anything.org", *parse_ip_address(address)), Refuse) << address;
  }
}

TEST_F(SandboxRulesTest, InAuditModeOnlyRulesOfTheOperatorRefuse) {
  using enum Admission::Kind;
  ASSERT_TRUE(sandboxes_.set_overlays("bad.example.com\n203.0.113.9\n", ""));
  set_policy(R"({"defaultAction":"deny","egress":[{"action":"deny","target":"93.184.216.99"}]})", true);
  EXPECT_EQ(admit(Protocol::Tls, "anything.org"), Splice);
  EXPECT_EQ(admit(Protocol::Other, std::nullopt), Splice);
  EXPECT_EQ(admit(Protocol::Tls, "anything.org", *parse_ip_address("93.184.216.99")), Splice);
  EXPECT_EQ(admit(Protocol::Tls, "bad.example.com"), Refuse);
  EXPECT_EQ(admit(Protocol::Tls, "anything.org", *parse_ip_address("203.0.113.9")), Refuse);
  EXPECT_EQ(admit(Protocol::Tls, "anything.org", *parse_ip_address("10.0.0.1")), Refuse);
}

TEST_F(SandboxRulesTest, OnlyBoundHostsAreOpened) {
  using enum Admission::Kind;
  fill(vault::testing::with_host("api.example.com"));
  EXPECT_EQ(admit(Protocol::Tls, "api.example.com"), Open);
  EXPECT_EQ(admit(Protocol::Http, "api.example.com"), Refuse) << "bound for https only, and the address is closed";
  EXPECT_EQ(admit(Protocol::Tls, "www.example.com"), Refuse);
  EXPECT_EQ(admit(Protocol::Other, "api.example.com"), Refuse);
}

TEST_F(SandboxRulesTest, ARequestGetsItsCredentialAndTheAnswerLosesIt) {
  server_.set("api.example.com", RecordType::A, {a("api.example.com", "127.0.0.1")});
  fill(vault::testing::with_host("api.example.com"));
  serve_tls();
  const std::string answer = ask("api.example.com", get("api.example.com"));
  EXPECT_THAT(answer, AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("REDACTED"), Not(HasSubstr("s3cret-value"))));
  EXPECT_THAT(seen_, ElementsAre("/path Bearer s3cret-value"));
  EXPECT_THAT(dialled_, ElementsAre("127.0.0.1")) << "the address that we resolved, not the sandbox's";
  EXPECT_THAT(audited_, ElementsAre("sbx b injected 200"));
}

TEST_F(SandboxRulesTest, RevocationTakesEffectWithTheNextRequest) {
  server_.set("api.example.com", RecordType::A, {a("api.example.com", "127.0.0.1")});
  fill(vault::testing::with_host("api.example.com"));
  serve_tls();
  auto client = dial("api.example.com");
  Sandbox& sandbox = *sandboxes_.by_id("sbx");
  sandbox.opened.opened(kPublic, std::chrono::seconds(60), "api.example.com", clock_.steady_now());
  sandbox.injector = nullptr;
  EXPECT_THAT(talk(*client, get("api.example.com")), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(seen_, ElementsAre("/path ")) << "on the connection that was opened for the credential";
}

TEST_F(SandboxRulesTest, AddressesThatTheSandboxMayNotReachGetNothing) {
  fill(vault::testing::with_host("api.example.com"));
  serve_tls();
  EXPECT_THAT(ask("api.example.com", get("api.example.com")),
              AllOf(StartsWith("HTTP/1.1 502"), HasSubstr("credential binding b"), HasSubstr("has no address")));
  server_.set("www.example.com", RecordType::A, {a("www.example.com", "169.254.169.254")});
  const auto resolved = await(io_, rules_of_sandbox_.resolve(kSandbox, "www.example.com"));
  ASSERT_FALSE(resolved);
  EXPECT_THAT(resolved.error().message, HasSubstr("not public"));
  EXPECT_THAT(dialled_, ElementsAre());
  EXPECT_THAT(seen_, ElementsAre());
}

TEST_F(SandboxRulesTest, NamesOfConnectionsBelowAWildcardAreLimitedLikeQuestions) {
  int resolved = 0;
  for (int i = 0; i < 60; ++i) {
    const std::string host = std::to_string(i) + std::string(50, 'x') + ".example.com";
    server_.set(host, RecordType::A, {a(host, "127.0.0.1")});
    const auto addresses = await(io_, rules_of_sandbox_.resolve(kSandbox, host));
    resolved += addresses ? 1 : 0;
    if (!addresses) EXPECT_EQ(addresses.error().message, "rate limit");
    EXPECT_EQ(server_.asked(host) > 0, addresses.has_value()) << "the name server hears of no other name";
  }
  EXPECT_GT(resolved, 10);
  EXPECT_LT(resolved, 25);
  EXPECT_TRUE(await(io_, rules_of_sandbox_.resolve(kSandbox, "0" + std::string(50, 'x') + ".example.com"))) << "cached";
}

TEST_F(SandboxRulesTest, PathsThatServersReadInTwoWaysAreRefused) {
  server_.set("api.example.com", RecordType::A, {a("api.example.com", "127.0.0.1")});
  fill(vault::testing::one_binding(R"("hosts":["api.example.com"],"paths":["/v1/*"])",
                                   R"("type":"bearer","credential":"c")"));
  serve_tls();
  for (const char* path : {"/v1/../admin", "/v1/%2e%2e/admin", "/v1/%252e%252e/admin"}) {
    const std::string answer =
        ask("api.example.com",
            "GET " + std::string(path) + " HTTP/1.1\r\nHost: api.example.com\r\nConnection: close\r\n\r\n");
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 403")) << path;
  }
  for (const std::string& request : seen_) EXPECT_THAT(request, Not(HasSubstr("s3cret")));
}

TEST_F(SandboxRulesTest, AnUnknownSandboxHasNoVerdictButNo) {
  http::Request request;
  request.method = "GET";
  request.target = "/";
  const auto verdict =
      rules_of_sandbox_.judge({*parse_ip_address("10.88.0.8"), kPublic, 443}, "https", "api.example.com", request);
  EXPECT_EQ(verdict.kind, intercept::Verdict::Kind::Answer);
  EXPECT_EQ(verdict.status, 403);
}

}  // namespace
}  // namespace osb::egress
