#include <cstdlib>
#include <opensandbox/connection.h>

#include <gtest/gtest.h>

namespace opensandbox {
namespace {

// Gives a variable its old value back.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    ::setenv(name, value, 1);
  }
  ~Variable() { old_.empty() ? ::unsetenv(name_) : ::setenv(name_, old_.c_str(), 1); }

 private:
  const char* name_;
  std::string old_;
};

std::string url(std::string domain, std::string protocol = "") {
  ConnectionConfig config;
  config.domain = std::move(domain);
  config.protocol = std::move(protocol);
  const auto resolved = config.resolved();
  return resolved ? resolved->base_url() : "error";
}

TEST(ConnectionConfig, MakesOneAddressOfManySpellings) {
  EXPECT_EQ(url("host"), "http://host/v1");
  EXPECT_EQ(url("host:81/"), "http://host:81/v1");
  EXPECT_EQ(url("https://host"), "https://host/v1");
  EXPECT_EQ(url("HTTPS://host/v1/", "http"), "https://host/v1");
  EXPECT_EQ(url("host/api/v1"), "http://host/api/v1");
  EXPECT_EQ(url("host", "https"), "https://host/v1");
  EXPECT_EQ(url("[::1]:8080"), "http://[::1]:8080/v1");
}

TEST(ConnectionConfig, KeyOfTheEnvironmentGoesToTheServerOfTheEnvironmentOnly) {
  const Variable key("OPEN_SANDBOX_API_KEY", "secret");
  const auto key_for = [](std::string domain, std::string protocol = "") {
    ConnectionConfig config;
    config.domain = std::move(domain);
    config.protocol = std::move(protocol);
    const auto resolved = config.resolved();
    return resolved ? resolved->api_key : "error";
  };
  const Variable domain("OPEN_SANDBOX_DOMAIN", "localhost:8080");
  EXPECT_EQ(key_for(""), "secret");
  EXPECT_EQ(key_for("127.0.0.1:8080"), "secret") << "the same host";
  EXPECT_EQ(key_for("http://LOCALHOST:8080/v1"), "secret");
  EXPECT_EQ(key_for("localhost:8080", "https"), "secret") << "better protected";
  EXPECT_EQ(key_for("localhost:8081"), "");
  EXPECT_EQ(key_for("other:8080"), "");
  EXPECT_EQ(key_for("127.0.0.1.example:8080"), "");
  const Variable safe("OPEN_SANDBOX_DOMAIN", "https://example.com");
  EXPECT_EQ(key_for("example.com", "https"), "secret");
  EXPECT_EQ(key_for("https://example.com:443/api"), "secret");
  EXPECT_EQ(key_for("http://example.com:443"), "") << "not in the clear";
  EXPECT_EQ(key_for("http://example.com"), "");
  const Variable none("OPEN_SANDBOX_DOMAIN", "");
  EXPECT_EQ(key_for("other:8080"), "secret") << "a key without a domain goes to the server that is named";
}

TEST(ConnectionConfig, RefusesInvalidValues) {
  EXPECT_EQ(url("ftp://host"), "error");
  EXPECT_EQ(url("host", "gopher"), "error");
  EXPECT_EQ(url("ho st"), "error");
  EXPECT_EQ(url("user:password@host"), "error");
  ConnectionConfig config;
  config.domain = "host";
  config.api_key = "a\r\nEvil: 1";
  EXPECT_FALSE(config.resolved());
  config.api_key = "a";
  config.headers = {{"X: y", "z"}};
  EXPECT_FALSE(config.resolved());
  config.headers = {{"X", "a\nb"}};
  EXPECT_FALSE(config.resolved());
  config.headers = {};
  config.request_timeout = std::chrono::milliseconds(-1);
  const auto refused = config.resolved();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::InvalidArgument);
}

TEST(ConnectionConfig, TakesWhatIsMissingFromTheEnvironment) {
  const Variable domain("OPEN_SANDBOX_DOMAIN", "from.env:1");
  const Variable key("OPEN_SANDBOX_API_KEY", "k");
  const Variable protocol("OPEN_SANDBOX_PROTOCOL", "https");
  const auto config = ConnectionConfig{}.resolved();
  ASSERT_TRUE(config);
  EXPECT_EQ(config->base_url(), "https://from.env:1/v1");
  EXPECT_EQ(config->api_key, "k");
  EXPECT_EQ(config->user_agent, "OpenSandbox-Cpp-SDK/" + std::string(version()));
  EXPECT_EQ(url("given"), "https://given/v1");
}

}  // namespace
}  // namespace opensandbox
