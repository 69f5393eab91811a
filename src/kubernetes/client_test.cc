#include "kubernetes/client.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kubernetes/api_status.h"
#include "kubernetes/testing/api_server.h"
#include "kubernetes/testing/status_answer.h"
#include "support/await.h"
#include "support/temp_dir.h"
#include "tls/server.h"
#include "tls/test_certificates.h"

namespace osb::kubernetes {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using testing::ApiServer;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using tls::testing::Certificate;

class KubernetesClientTest : public ::testing::Test {
 protected:
  template <typename T>
  T run(net::awaitable<T> task) {
    return osb::testing::await(io, std::move(task));
  }
  // Sleeps take no time; the test sees how long they would have been.
  ClientOptions without_pauses() {
    ClientOptions options;
    options.sleep = [this](std::chrono::nanoseconds time) -> net::awaitable<bool> {
      pauses.push_back(time);
      co_return true;
    };
    return options;
  }
  std::unique_ptr<Client> open(const ClusterConfig& config, ClientOptions options = {}) {
    auto made = Client::open(io.get_executor(), config, std::move(options));
    if (!made) throw std::runtime_error(made.error().message);
    return std::move(*made);
  }
  Result<List> list(Client& client) { return run(client.list(resources::kPods, "default")); }
  static void write(const std::filesystem::path& path, const std::string& text) {
    const std::filesystem::path fresh = path.string() + ".new";
    std::ofstream(fresh) << text;
    std::filesystem::rename(fresh, path);
  }

  net::io_context io{1};
  std::vector<std::chrono::nanoseconds> pauses;
};

TEST_F(KubernetesClientTest, ARequestThatTheServerPutsOffIsSentAgainWhenItSays) {
  ApiServer server(io);
  int refusals = 2;
  server.intercept = [&](const http::Request&) -> std::optional<http::Response> {
    if (refusals-- <= 0) return std::nullopt;
    auto answer = testing::status_answer(429, "TooManyRequests", "slow down");
    answer.headers.set("Retry-After", "3");
    return answer;
  };
  const auto client = open(server.config(), without_pauses());
  ASSERT_TRUE(list(*client));
  ASSERT_EQ(pauses.size(), 2u);
  for (const auto pause : pauses) EXPECT_THAT(pause, AllOf(::testing::Gt(3s), ::testing::Lt(4s)));
}

TEST_F(KubernetesClientTest, AServerThatNeverAnswersInTimeIsGivenUp) {
  ApiServer server(io);
  server.intercept = [](const http::Request&) { return testing::status_answer(429, "TooManyRequests", "slow down"); };
  ClientOptions options = without_pauses();
  options.repeats = 3;
  const auto client = open(server.config(), options);
  const auto answer = list(*client);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::Exhausted);
  EXPECT_EQ(server.requests.size(), 4u);
}

TEST_F(KubernetesClientTest, RefusalsNameTheRequest) {
  ApiServer server(io);
  server.intercept = [](const http::Request&) { return testing::status_answer(403, "Forbidden", "pods is forbidden"); };
  const auto client = open(server.config());
  const auto answer = list(*client);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::Forbidden);
  EXPECT_EQ(answer.error().message, "GET /api/v1/namespaces/default/pods: pods is forbidden");
}

TEST_F(KubernetesClientTest, AServerThatIsNotThereIsUnavailable) {
  ClusterConfig config;
  {
    ApiServer server(io);
    config = server.config();
  }
  const auto client = open(config);
  const auto answer = list(*client);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::Unavailable);
  EXPECT_THAT(answer.error().message, HasSubstr(config.server));
}

TEST_F(KubernetesClientTest, AnswersThatAreNoObjectsAreErrors) {
  ApiServer server(io);
  const auto client = open(server.config());
  for (const char* body : {"[]", "", "{", "null"}) {
    server.intercept = [&](const http::Request&) { return http::json_response(200, body); };
    EXPECT_FALSE(list(*client)) << body;
  }
  server.intercept = [&](const http::Request&) { return http::json_response(200, R"({"items":null})"); };
  EXPECT_TRUE(list(*client).value().items.empty());
}

TEST_F(KubernetesClientTest, OwnLimitsHoldRequestsBack) {
  ApiServer server(io);
  FakeClock clock;
  ClientOptions options = without_pauses();
  options.clock = &clock;
  options.read_qps = 10;
  options.read_burst = 2;
  const auto client = open(server.config(), options);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(list(*client));
  ASSERT_EQ(pauses.size(), 2u);
  EXPECT_NEAR(static_cast<double>(pauses[0].count()), 1e8, 1e3);
  EXPECT_NEAR(static_cast<double>(pauses[1].count()), 2e8, 1e3);
  ASSERT_TRUE(run(client->create(resources::kPods, "default", {{"metadata", {{"name", "p"}}}})));
  EXPECT_EQ(pauses.size(), 2u) << "writes have a limit of their own";
}

TEST_F(KubernetesClientTest, AnExchangedTokenIsUsedAtOnce) {
  const osb::testing::TempDir dir;
  write(dir / "token", "first\n");
  ApiServer server(io);
  std::vector<std::string> seen;
  server.intercept = [&](const http::Request& request) -> std::optional<http::Response> {
    seen.emplace_back(request.headers.get("Authorization"));
    return std::nullopt;
  };
  ClusterConfig config = server.config();
  config.token.file = dir / "token";
  const auto client = open(config);
  ASSERT_TRUE(list(*client));
  write(dir / "token", "second\n");
  ASSERT_TRUE(list(*client));
  std::filesystem::remove(dir / "token");
  ASSERT_TRUE(list(*client)) << "while the file is away, the last token stays in use";
  EXPECT_THAT(seen, ElementsAre("Bearer first", "Bearer second", "Bearer second"));
}

TEST_F(KubernetesClientTest, ARefusedTokenIsReadAgainOnce) {
  const osb::testing::TempDir dir;
  write(dir / "token", "secret-token");
  ApiServer server(io);
  int refusals = 1;
  server.intercept = [&](const http::Request&) -> std::optional<http::Response> {
    if (refusals-- <= 0) return std::nullopt;
    return testing::status_answer(401, "Unauthorized", "Unauthorized");
  };
  ClusterConfig config = server.config();
  config.token.file = dir / "token";
  const auto client = open(config);
  EXPECT_TRUE(list(*client));
  refusals = 5;
  const auto refused = list(*client);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::Unauthorized);
  EXPECT_THAT(refused.error().message, Not(HasSubstr("secret")));
  EXPECT_EQ(server.requests.size(), 4u);
}

TEST_F(KubernetesClientTest, CredentialsThatCannotBeReadFailAtTheStart) {
  const osb::testing::TempDir dir;
  ClusterConfig config;
  config.server = "https://127.0.0.1:1";
  config.origin = "a test";
  config.token.file = dir / "token";
  EXPECT_THAT(Client::open(io.get_executor(), config).error().message, HasSubstr("token of a test"));
  config.token = {};
  config.ca.inline_text = "no certificate";
  EXPECT_THAT(Client::open(io.get_executor(), config).error().message, HasSubstr("certificates of a test"));
  config.server = "nonsense";
  EXPECT_THAT(Client::open(io.get_executor(), config).error().message, HasSubstr("no address"));
}

// A server with TLS that takes only clients with a certificate.
class KubernetesTlsTest : public KubernetesClientTest {
 protected:
  KubernetesTlsTest()
      : authority(new_authority("cluster")),
        context(tls::ServerContext::make(serving_certificate(authority).identity()).value()) {
    tls::testing::require_client_certificate(*context, authority);
    http::ServerOptions options;
    options.secure = tls::secure_with(context);
    server = std::make_unique<ApiServer>(io, std::move(options));
    config = server->config();
    config.server.replace(0, 4, "https");
    config.tls_name = "kubernetes.default";
    config.ca.inline_text = authority.certificate_pem();
  }
  static Certificate signed_by(const Certificate* issuer, std::string name, std::string alt_names, bool is_authority) {
    tls::testing::CertificateRequest request;
    request.common_name = std::move(name);
    request.alt_names = std::move(alt_names);
    request.authority = is_authority;
    return Certificate(request, issuer);
  }
  static Certificate new_authority(std::string name) { return signed_by(nullptr, std::move(name), "", true); }
  static Certificate serving_certificate(const Certificate& issuer) {
    return signed_by(&issuer, "api", "DNS:kubernetes.default", false);
  }
  static Certificate client_certificate(std::string name, const Certificate& issuer) {
    return signed_by(&issuer, std::move(name), "", false);
  }

  Certificate authority;
  std::shared_ptr<tls::ServerContext> context;
  std::unique_ptr<ApiServer> server;
  ClusterConfig config;
};

TEST_F(KubernetesTlsTest, AClientCertificateIsShownAndTheServersNameChecked) {
  const Certificate mine = client_certificate("me", authority);
  config.certificate.inline_text = mine.certificate_pem();
  config.key.inline_text = mine.key_pem();
  const auto client = open(config);
  const auto answer = list(*client);
  EXPECT_TRUE(answer) << answer.error().message;

  config.tls_name = "another.name";
  const auto other = open(config);
  EXPECT_THAT(list(*other).error().message, HasSubstr("another.name"));
}

TEST_F(KubernetesTlsTest, AClientWithoutACertificateIsRefused) {
  const auto client = open(config);
  const auto answer = list(*client);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::Unavailable);
}

TEST_F(KubernetesTlsTest, ExchangedCertificatesAreUsedByNewRequests) {
  const osb::testing::TempDir dir;
  const Certificate first = client_certificate("first", authority);
  write(dir / "crt", first.certificate_pem());
  write(dir / "key", first.key_pem());
  write(dir / "ca", authority.certificate_pem());
  config.certificate.file = dir / "crt";
  config.key.file = dir / "key";
  config.ca = {.inline_text = {}, .file = dir / "ca"};
  const auto client = open(config);
  ASSERT_TRUE(list(*client));

  // The server's certificate and its clients' come from another authority now.
  const Certificate next_authority = new_authority("next");
  ASSERT_TRUE(context->replace(serving_certificate(next_authority).identity()));
  tls::testing::require_client_certificate(*context, next_authority);
  ASSERT_TRUE(list(*client)) << "open connections stay as they are";
  client->forget_connections();
  EXPECT_FALSE(list(*client)) << "the old authority does not know the new server";
  write(dir / "ca", next_authority.certificate_pem());
  EXPECT_FALSE(list(*client)) << "the new server does not know the old client";
  const Certificate second = client_certificate("second", next_authority);
  write(dir / "crt", second.certificate_pem());
  EXPECT_FALSE(list(*client)) << "certificate and key do not belong together";
  write(dir / "key", second.key_pem());
  const auto answer = list(*client);
  EXPECT_TRUE(answer) << answer.error().message;
}

}  // namespace
}  // namespace osb::kubernetes
