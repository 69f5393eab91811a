#include "credentials/providers.h"

#include <cerrno>
#include <fcntl.h>
#include <fstream>
#include <poll.h>
#include <sys/stat.h>

#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include "base/unique_fd.h"
#include "http/server.h"
#include "support/await.h"
#include "support/temp_dir.h"
#include "tls/server.h"
#include "tls/test_certificates.h"

namespace osb::credentials {
namespace {

using osb::testing::await;

class ProvidersTest : public ::testing::Test {
 protected:
  std::string write(const std::string& name, std::string_view text, mode_t mode = 0600) {
    const auto path = directory_ / name;
    std::ofstream(path) << text;
    ::chmod(path.c_str(), mode);
    return path;
  }
  Result<Fetched> get(Entry entry) { return await(io_, fetch(std::move(entry), clock_)); }
  std::string error(Entry entry) {
    const auto fetched = get(std::move(entry));
    EXPECT_FALSE(fetched);
    if (fetched) return "";
    EXPECT_EQ(fetched.error().code, Code::Unavailable);
    EXPECT_FALSE(fetched.error().message.contains("s3cret")) << fetched.error().message;
    return fetched.error().message;
  }
  static Entry of(std::string provider) {
    Entry out;
    out.name = "e";
    out.provider = std::move(provider);
    out.timeout = std::chrono::seconds(300);  // for slow machines
    return out;
  }
  Entry shell(const std::string& script) {
    Entry out = of("command");
    out.command = {"/bin/sh", "-c", script};
    return out;
  }

  net::io_context io_{1};
  osb::testing::TempDir directory_;
  FakeClock clock_;
};

TEST_F(ProvidersTest, FileIsReadAnewEachTime) {
  Entry entry = of("file");
  entry.file = write("key", "s3cret-1\n");
  EXPECT_EQ(get(entry)->value.view(), "s3cret-1");
  write("key", "s3cret-2");
  EXPECT_EQ(get(entry)->value.view(), "s3cret-2");
  EXPECT_FALSE(get(entry)->expires);
  EXPECT_FALSE(get(entry)->refresh_after);
}

TEST_F(ProvidersTest, FileThatOthersMayReadIsRefused) {
  Entry entry = of("file");
  entry.file = write("key", "s3cret", 0644);
  EXPECT_TRUE(error(entry).contains("other users may open it"));
  entry.file = write("empty", "");
  EXPECT_TRUE(error(entry).contains("is empty"));
  entry.file = directory_ / "none";
  EXPECT_TRUE(error(entry).contains("No such file"));
  entry.file = directory_.path();
  EXPECT_TRUE(error(entry).contains("no regular file"));
  ASSERT_EQ(::mkfifo((directory_ / "pipe").c_str(), 0600), 0);
  entry.file = directory_ / "pipe";
  EXPECT_TRUE(error(entry).contains("no regular file"));
}

TEST_F(ProvidersTest, CommandPrintsTheValue) {
  EXPECT_EQ(get(shell("echo s3cret-value"))->value.view(), "s3cret-value");
  EXPECT_EQ(get(shell("printf '%s' \"${SECRET_OF_THE_SERVER-none}\""))->value.view(), "none");
}

TEST_F(ProvidersTest, CommandThatFailsGivesNoValue) {
  EXPECT_TRUE(error(shell("echo s3cret; echo s3cret >&2; exit 3")).contains("exit code 3"));
  EXPECT_TRUE(error(shell("echo s3cret; kill -9 $$")).contains("signal 9"));
  EXPECT_TRUE(error(shell("true")).contains("is empty"));
  EXPECT_TRUE(error(shell("yes s3cret")).contains("more than 64 KiB"));
  Entry none = of("command");
  none.command = {"/nonexistent/program"};
  EXPECT_TRUE(error(none).contains("/nonexistent/program"));
}

TEST_F(ProvidersTest, CommandThatHangsIsKilledWithItsChildren) {
  const std::string pipe = directory_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const UniqueFd held(::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  Entry entry = shell("sleep 1000 > " + pipe + " & wait");
  entry.timeout = std::chrono::seconds(1);
  EXPECT_TRUE(error(entry).contains("no answer within 1 s"));
  // The pipe ends when no process holds its other side any more.
  char byte = 0;
  while (::read(held.get(), &byte, 1) < 0) {
    ASSERT_EQ(errno, EAGAIN);
    pollfd ended{.fd = held.get(), .events = 0, .revents = 0};
    ASSERT_EQ(::poll(&ended, 1, -1), 1);
  }
}

// A store and a token endpoint over HTTPS, with a certificate of its own authority.
class HttpsProvidersTest : public ProvidersTest {
 protected:
  void SetUp() override {
    const tls::testing::Certificate authority({.common_name = "test authority", .alt_names = {}, .authority = true});
    const tls::testing::Certificate leaf({.common_name = "127.0.0.1", .alt_names = "IP:127.0.0.1"}, &authority);
    ca_file_ = write("ca.pem", authority.certificate_pem(), 0644);
    http::ServerOptions options;
    options.secure = tls::secure_with(*tls::ServerContext::make(leaf.identity()));
    server_.emplace(
        io_.get_executor(),
        [this](http::Request& request) -> net::awaitable<http::Response> {
          auto body = co_await request.body->read_all(1 << 16);
          seen_ = request.method + " " + request.target + " " + body.value_or("");
          headers_ = request.headers;
          co_return http::json_response(status_, answer_);
        },
        std::move(options));
    auto listening = server_->listen(http::Address::tcp("127.0.0.1", 0));
    ASSERT_TRUE(listening) << listening.error().message;
    url_ = "https://127.0.0.1:" + std::to_string(listening->port);
  }
  void TearDown() override { await(io_, server_->stop(std::chrono::milliseconds(0))); }

  Entry kv2() {
    Entry out = of("vault-kv2");
    out.url = url_;
    out.ca_file = ca_file_;
    out.path = "agents/model key";
    out.field = "key";
    out.token_file = write("vault-token", "s3cret-token\n");
    return out;
  }
  Entry oauth() {
    Entry out = of("oauth2");
    out.url = url_ + "/oauth/token";
    out.ca_file = ca_file_;
    out.client_id = "agents";
    out.client_secret_file = write("client-secret", "s3cret/client");
    out.scope = "read write";
    return out;
  }

  std::optional<http::Server> server_;
  std::string url_, ca_file_, seen_, answer_;
  http::Headers headers_;
  int status_ = 200;
};

TEST_F(HttpsProvidersTest, SecretComesFromAKv2Store) {
  answer_ = R"({"data":{"data":{"key":"s3cret-model-key"},"metadata":{"version":2}}})";
  Entry entry = kv2();
  entry.name_space = "team";
  const auto fetched = get(entry);
  ASSERT_TRUE(fetched) << fetched.error().message;
  EXPECT_EQ(fetched->value.view(), "s3cret-model-key");
  EXPECT_EQ(seen_, "GET /v1/secret/data/agents/model%20key ");
  EXPECT_EQ(headers_.get("X-Vault-Token"), "s3cret-token");
  EXPECT_EQ(headers_.get("X-Vault-Namespace"), "team");
}

TEST_F(HttpsProvidersTest, StoreThatRefusesGivesAReasonWithoutItsWords) {
  status_ = 403;
  answer_ = R"({"errors":["token s3cret-token is not permitted"]})";
  EXPECT_EQ(error(kv2()), "the store answers 403");
  status_ = 200;
  answer_ = R"({"data":{"data":{"other":"s3cret"}}})";
  EXPECT_TRUE(error(kv2()).contains("\"key\""));
  Entry open_token = kv2();
  open_token.token_file = write("open-token", "s3cret", 0604);
  EXPECT_TRUE(error(open_token).contains("token_file"));
}

TEST_F(HttpsProvidersTest, ServerWithAnotherCertificateGetsNothing) {
  answer_ = R"({"data":{"data":{"key":"v"}}})";
  Entry entry = kv2();
  entry.ca_file.clear();
  EXPECT_TRUE(error(entry).contains("certificate")) << error(entry);
  EXPECT_EQ(seen_, "");
  Entry plain = kv2();
  plain.url = "http://127.0.0.1:1";
  EXPECT_TRUE(error(plain).contains("only https"));
}

TEST_F(HttpsProvidersTest, TokenOfAnOauthServerHasAnEnd) {
  answer_ = R"({"access_token":"s3cret-access","token_type":"Bearer","expires_in":1000})";
  const auto fetched = get(oauth());
  ASSERT_TRUE(fetched) << fetched.error().message;
  EXPECT_EQ(fetched->value.view(), "s3cret-access");
  EXPECT_EQ(seen_, "POST /oauth/token grant_type=client_credentials&scope=read%20write");
  EXPECT_EQ(headers_.get("Authorization"), "Basic YWdlbnRzOnMzY3JldCUyRmNsaWVudA==");
  EXPECT_EQ(headers_.get("Content-Type"), "application/x-www-form-urlencoded");
  EXPECT_EQ(fetched->refresh_after, std::chrono::seconds(800));
  EXPECT_EQ(fetched->expires, std::chrono::floor<std::chrono::microseconds>(clock_.now()) + std::chrono::seconds(1000));
  status_ = 401;
  answer_ = R"({"error":"invalid_client","error_description":"s3cret/client"})";
  EXPECT_EQ(error(oauth()), "the token endpoint answers 401 invalid_client");
}

TEST(ProviderTimes, ValueIsFetchedAgainBeforeItExpires) {
  using std::chrono::seconds;
  const Timestamp now{};
  const struct {
    const char* why;
    std::optional<seconds> lifetime;
    seconds refresh;
    std::optional<seconds> after, expires;
  } rows[] = {
      {"neither", {}, seconds(0), {}, {}},
      {"lifetime", seconds(100), seconds(0), seconds(80), seconds(100)},
      {"short lifetime", seconds(1), seconds(0), seconds(1), seconds(1)},
      {"operator is earlier", seconds(100), seconds(10), seconds(10), seconds(100)},
      {"operator is later", seconds(100), seconds(99), seconds(80), seconds(100)},
      {"operator alone", {}, seconds(60), seconds(60), seconds(120)},
  };
  for (const auto& row : rows) {
    Fetched fetched;
    set_times(fetched, row.lifetime, row.refresh, now);
    EXPECT_EQ(fetched.refresh_after, row.after) << row.why;
    EXPECT_EQ(fetched.expires.has_value(), row.expires.has_value()) << row.why;
    if (row.expires) EXPECT_EQ(*fetched.expires, now + *row.expires) << row.why;
  }
}

TEST(Catalogue, TenantFindsItsEntries) {
  config::CredentialsSection section;
  Entry one;
  one.name = "mine";
  one.hosts = {"API.Example.com."};
  section.entries.push_back(one);
  one.name = "all";
  one.tenants = {"*"};
  section.entries.push_back(one);
  const auto catalogue = Catalogue::make(section);
  ASSERT_TRUE(catalogue) << catalogue.error().message;
  ASSERT_NE(catalogue->find("mine", "default"), nullptr);
  EXPECT_EQ(catalogue->find("mine", "default")->hosts.front(), "api.example.com");
  EXPECT_EQ(catalogue->find("mine", "other"), nullptr);
  EXPECT_NE(catalogue->find("all", "other"), nullptr);
  EXPECT_EQ(catalogue->find("none", "default"), nullptr);
  section.entries.front().hosts = {"10.0.0.1"};
  EXPECT_TRUE(Catalogue::make(section).error().message.contains("entry mine: hosts"));
}

}  // namespace
}  // namespace osb::credentials
