#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/server_config.h"

namespace osb::config {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string of_backend(const std::string& type) {
  return "[runtime]\ntype = '" + type + "'\n" + (type == "native" ? "" : "execd_image = 'e'\n");
}

Result<ServerConfig> parsed(const std::string& keys, const std::string& more = "") {
  return parse_server_config(of_backend("docker") + more + "[egress.upstream_proxy]\n" + keys, "server.toml", {});
}

std::string refused(const std::string& keys, const std::string& more = "") {
  const auto config = parsed(keys, more);
  return config ? "" : config.error().message;
}

TEST(UpstreamProxy, IsReadOnDocker) {
  const auto config =
      parsed("url = 'http://proxy.corp:3128'\nauthorization = 'Basic eDp5'\nca_cert_path = '/etc/proxy.pem'");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->egress.upstream_proxy,
            (UpstreamProxySection{
                .url = "http://proxy.corp:3128", .authorization = "Basic eDp5", .ca_cert_path = "/etc/proxy.pem"}));
  EXPECT_THAT(describe(*config), Not(HasSubstr("eDp5")));
  EXPECT_EQ(refused("url = ''"), "");
  for (const char* good :
       {"http://proxy", "http://10.0.0.7:80", "http://[fd00::1]:3128", "http://[::1]", "http://a:1/"})
    EXPECT_EQ(refused("url = '" + std::string(good) + "'"), "") << good;
}

TEST(UpstreamProxy, AWrongOneIsRefusedWithTheReason) {
  for (const char* wrong : {"proxy:3128", "http://", "http://proxy/x", "http://proxy:0", "http://proxy:70000",
                            "http://proxy:", "http://[fd00::1", "http://a b:1", "http://[]:1", "socks5://proxy:1"}) {
    EXPECT_THAT(refused("url = '" + std::string(wrong) + "'"),
                HasSubstr("[egress.upstream_proxy] url: expected http://HOST:PORT"))
        << wrong;
  }
  EXPECT_THAT(refused("url = 'https://proxy.corp:3128'"), HasSubstr("sidecars do not speak TLS with the proxy"));
  EXPECT_THAT(refused("url = 'http://u:hidden@proxy'"),
              AllOf(HasSubstr("credentials belong into authorization"), Not(HasSubstr("hidden"))));
  EXPECT_THAT(refused("url = 'http://h:1'\nauthorization = \"hidden\\r\\nX: y\""),
              AllOf(HasSubstr("[egress.upstream_proxy] authorization: expected one line"), Not(HasSubstr("hidden"))));
  EXPECT_THAT(refused("authorization = 'Basic eDp5'"), HasSubstr("authorization: needs url"));
  EXPECT_THAT(refused("ca_cert_path = '/x'"), HasSubstr("ca_cert_path: needs url"));
  EXPECT_THAT(refused("url = 'http://h:1'", "[egress]\nmode = 'dns'\n"),
              HasSubstr("needs [egress] mode = \"dns+nft\""));
}

TEST(UpstreamProxy, ABackendThatWouldPassByItRefusesIt) {
  const auto on = [](const std::string& type) {
    const auto config =
        parse_server_config(of_backend(type) + "[egress.upstream_proxy]\nurl = 'http://h:1'", "server.toml", {});
    return config ? "" : config.error().message;
  };
  EXPECT_THAT(on("native"), HasSubstr("[egress.upstream_proxy] url: is for docker; with the native backend it is "
                                      "[egress] upstream_proxy of sandboxd's file"));
  EXPECT_THAT(on("kubernetes"), HasSubstr("[egress.upstream_proxy] url: this server has no proxy for the connections "
                                          "of sidecars on kubernetes yet"));
}

}  // namespace
}  // namespace osb::config
