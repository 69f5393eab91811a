#include "egress/sidecar/settings.h"

#include <fstream>
#include <map>

#include <gtest/gtest.h>

#include "egress/sidecar/policy_file.h"
#include "support/temp_dir.h"

namespace osb::egress {
namespace {

using Variables = std::map<std::string, std::string>;

Result<Settings> read(Variables variables) {
  variables.try_emplace("OPENSANDBOX_EGRESS_TOKEN", "hunter2");
  return read_settings([&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

TEST(SidecarSettings, DefaultsAreTheContracts) {
  const auto settings = read({});
  ASSERT_TRUE(settings) << settings.error().message;
  EXPECT_EQ(settings->mode, "dns");
  EXPECT_EQ(format_endpoint(settings->api), "0.0.0.0:18080");
  EXPECT_EQ(settings->max_rules, 4096u);
  EXPECT_EQ(settings->upstream_timeout, std::chrono::seconds(5));
  EXPECT_EQ(settings->probe_interval, std::chrono::seconds(30));
  EXPECT_EQ(settings->log_outputs, std::vector<std::string>{"stdout"});
  EXPECT_TRUE(settings->probe_name.empty());
}

TEST(SidecarSettings, ValuesAreReadAsTheContractSays) {
  const auto settings = read({{"OPENSANDBOX_EGRESS_MODE", " NFT+dns "},
                              {"OPENSANDBOX_EGRESS_HTTP_ADDR", "127.0.0.1:9"},
                              {"OPENSANDBOX_EGRESS_MAX_RULES", "-5"},
                              {"OPENSANDBOX_EGRESS_DNS_UPSTREAM", "1.1.1.1, [fd00::1]:5353,1.1.1.1:53"},
                              {"OPENSANDBOX_EGRESS_DNS_UPSTREAM_TIMEOUT", "900"},
                              {"OPENSANDBOX_EGRESS_DNS_UPSTREAM_PROBE", "."},
                              {"OPENSANDBOX_EGRESS_DNS_UPSTREAM_PROBE_INTERVAL_SEC", "x"},
                              {"OPENSANDBOX_EGRESS_BLOCK_DOH_443", "Yes"},
                              {"OPENSANDBOX_EGRESS_DOH_BLOCKLIST", "8.8.8.8,nonsense,1.1.0.0/16"},
                              {"OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector.example:4318/v1"}});
  ASSERT_TRUE(settings) << settings.error().message;
  EXPECT_EQ(settings->mode, "dns+nft");
  EXPECT_EQ(settings->max_rules, 4096u);
  ASSERT_EQ(settings->upstreams.size(), 2u);
  EXPECT_EQ(format_endpoint(settings->upstreams[1]), "[fd00::1]:5353");
  EXPECT_EQ(settings->upstream_timeout, std::chrono::seconds(120));
  EXPECT_EQ(settings->probe_interval, std::chrono::seconds(30));
  EXPECT_TRUE(settings->block_doh);
  EXPECT_EQ(settings->doh_blocklist.size(), 2u);
  EXPECT_EQ(settings->warnings.size(), 1u);
  EXPECT_EQ(settings->collector, "collector.example");
}

TEST(SidecarSettings, AWeakerSettingThanMeantEndsTheStart) {
  for (const char* mode : {"", "nft", "dns+nfs", "dnsnft", "off"}) {
    EXPECT_FALSE(read({{"OPENSANDBOX_EGRESS_MODE", mode}})) << mode;
  }
  EXPECT_FALSE(read({{"OPENSANDBOX_EGRESS_TOKEN", ""}}));
  EXPECT_FALSE(read({{"OPENSANDBOX_EGRESS_DNS_UPSTREAM", "dns.google"}}));
  EXPECT_FALSE(read({{"OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT", "1"}})) << "without an authority";
  EXPECT_FALSE(read({{"OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT", "1"},
                     {"OPENSANDBOX_EGRESS_CA_FILE", "/ca.pem"},
                     {"OPENSANDBOX_EGRESS_MITMPROXY_SSL_INSECURE", "1"}}));
  EXPECT_FALSE(read({{"OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT", "1"},
                     {"OPENSANDBOX_EGRESS_CA_FILE", "/ca.pem"},
                     {"OPENSANDBOX_EGRESS_CREDENTIAL_VAULT_TRUSTED_PROXY_CIDRS", "10.0.0.0/8,proxy"}}));
  EXPECT_TRUE(read({{"OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT", "1"}, {"OPENSANDBOX_EGRESS_CA_FILE", "/ca.pem"}}));
}

TEST(SidecarSettings, AProxyNeedsInterceptionAndAPlainAddress) {
  const auto with = [](std::string url, bool intercept = true) {
    return read({{"OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT", intercept ? "1" : ""},
                 {"OPENSANDBOX_EGRESS_CA_FILE", "/ca.pem"},
                 {"OPENSANDBOX_EGRESS_UPSTREAM_PROXY", std::move(url)},
                 {"OPENSANDBOX_EGRESS_UPSTREAM_PROXY_AUTH", "Basic eDp5"}});
  };
  const auto good = with("http://proxy.corp:3128");
  ASSERT_TRUE(good) << good.error().message;
  EXPECT_EQ(good->upstream_proxy->host, "proxy.corp");
  EXPECT_EQ(good->upstream_proxy->port, 3128);
  EXPECT_EQ(good->upstream_proxy_authorization, "Basic eDp5");
  EXPECT_FALSE(with("http://proxy.corp:3128", false)) << "connections would pass by it";
  for (const char* wrong : {"proxy.corp:3128", "https://proxy.corp", "unix:/run/proxy", "http://proxy.corp/path"}) {
    const auto refused = with(wrong);
    ASSERT_FALSE(refused) << wrong;
    EXPECT_THAT(refused.error().message, ::testing::HasSubstr("UPSTREAM_PROXY"));
  }
}

TEST(SidecarSettings, TheAuthorizationOfAProxyMayBeInAFile) {
  const osb::testing::TempDir directory;
  const std::string path = directory.path().string() + "/authorization";
  const auto with = [&path] {
    return read({{"OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT", "1"},
                 {"OPENSANDBOX_EGRESS_CA_FILE", "/ca.pem"},
                 {"OPENSANDBOX_EGRESS_UPSTREAM_PROXY", "http://proxy.corp:3128"},
                 {"OPENSANDBOX_EGRESS_UPSTREAM_PROXY_AUTH_FILE", path}});
  };
  const auto missing = with();
  ASSERT_FALSE(missing) << "the proxy would be asked without it";
  EXPECT_THAT(missing.error().message, ::testing::HasSubstr("UPSTREAM_PROXY_AUTH_FILE"));
  std::ofstream(path) << "Basic eDp5\n";
  const auto good = with();
  ASSERT_TRUE(good) << good.error().message;
  EXPECT_EQ(good->upstream_proxy_authorization, "Basic eDp5");
  std::ofstream(path) << "Basic eDp5\r\nX-More: 1";
  const auto wrong = with();
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message, ::testing::AllOf(::testing::HasSubstr("expected one line"),
                                                      ::testing::Not(::testing::HasSubstr("eDp5"))));
}

TEST(SidecarSettings, NameServersOfResolvConf) {
  const auto servers = parse_resolv_conf(
      "# nameserver 9.9.9.9\nsearch x\nnameserver 127.0.0.11\nnameserver\t10.0.0.2 # office\nnameserver 10.0.0.2\n"
      "nameserver fe80::1%eth0\nnameserver fd00::53");
  ASSERT_EQ(servers.size(), 3u);
  EXPECT_EQ(format_endpoint(servers[0]), "10.0.0.2:53");
  EXPECT_EQ(format_endpoint(servers[1]), "[fd00::53]:53");
  EXPECT_EQ(format_endpoint(servers[2]), "127.0.0.11:53");
}

TEST(PolicyFile, AStoredPolicyComesBackAndKeepsTheFilesMode) {
  const osb::testing::TempDir directory;
  const std::string path = directory.path().string() + "/policy.json";
  const PolicyFile file(path);
  ASSERT_TRUE(file.load());
  EXPECT_FALSE(*file.load());
  const auto policy = policy::parse_policy(
      R"({"egress":[{"action":"allow","target":"A.com"},{"action":"deny","ports":[25]}],"defaultAction":"allow"})");
  ASSERT_TRUE(file.save(*policy));
  ASSERT_TRUE(file.load());
  EXPECT_EQ(**file.load(), *policy);
  std::filesystem::permissions(path, std::filesystem::perms(0640));
  ASSERT_TRUE(file.save(policy::Policy{}));
  EXPECT_EQ(std::filesystem::status(path).permissions(), std::filesystem::perms(0640));
  EXPECT_EQ(pretty({}), "{\n  \"egress\": [],\n  \"defaultAction\": \"deny\"\n}\n");
}

}  // namespace
}  // namespace osb::egress
