#include "kubernetes/cluster_config.h"

#include <fstream>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/base64.h"
#include "kubernetes/text_file.h"
#include "support/temp_dir.h"

namespace osb::kubernetes {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string config_with(const std::string& cluster, const std::string& user) {
  return "apiVersion: v1\nkind: Config\ncurrent-context: here\ncontexts:\n- name: here\n  context: {cluster: c, user: "
         "u, "
         "namespace: work}\n- name: there\n  context: {cluster: missing}\nclusters:\n- name: c\n  cluster: {" +
         cluster + "}\nusers:\n- name: u\n  user: {" + user + "}\n";
}

std::string refusal(const std::string& text, std::string_view context = {}) {
  const auto config = parse_kubeconfig(text, "/etc", context);
  return config ? "accepted" : config.error().message;
}

TEST(KubeconfigTest, TheCurrentContextNamesClusterUserAndNamespace) {
  const auto config = parse_kubeconfig(
      config_with("server: 'https://10.0.0.1:6443', certificate-authority-data: " + encode_base64("CA PEM") +
                      ", tls-server-name: kubernetes",
                  "client-certificate: pki/client.crt, client-key: /abs/client.key, token: abc"),
      "/etc/kube");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->server, "https://10.0.0.1:6443");
  EXPECT_EQ(config->tls_name, "kubernetes");
  EXPECT_EQ(config->ca.inline_text, "CA PEM");
  EXPECT_EQ(config->certificate.file, "/etc/kube/pki/client.crt");
  EXPECT_EQ(config->key.file, "/abs/client.key");
  EXPECT_EQ(config->token.inline_text, "abc");
  EXPECT_EQ(config->ns, "work");
}

TEST(KubeconfigTest, ATokenFileWinsOverAToken) {
  const auto config = parse_kubeconfig(config_with("server: 'http://h:1'", "token: old, tokenFile: t"), "/d");
  ASSERT_TRUE(config);
  EXPECT_EQ(config->token.file, "/d/t");
  EXPECT_EQ(config->token.inline_text, "");
}

TEST(KubeconfigTest, WaysToLogInThatAreNotSupportedAreNamed) {
  EXPECT_THAT(refusal(config_with("server: 'https://h'", "exec: {command: aws}")),
              HasSubstr("'exec' is not supported"));
  EXPECT_THAT(refusal(config_with("server: 'https://h'", "username: x, password: secret")),
              ::testing::AllOf(HasSubstr("'username'"), Not(HasSubstr("secret"))));
  EXPECT_THAT(refusal(config_with("server: 'https://h', proxy-url: 'http://p'", "token: x")), HasSubstr("proxy-url"));
}

TEST(KubeconfigTest, BrokenConfigurationsAreRefusedWithTheirPlace) {
  EXPECT_THAT(refusal(config_with("server: 'ftp://h'", "token: x")), HasSubstr("cluster 'c': server"));
  EXPECT_THAT(refusal(config_with("server: 'https://h'", "client-key-data: '%%%', client-certificate: a")),
              HasSubstr("client-key-data is not base64"));
  EXPECT_THAT(refusal(config_with("server: 'https://h'", "client-key: a")), HasSubstr("together"));
  EXPECT_THAT(refusal(config_with("server: 'https://h', insecure-skip-tls-verify: true, certificate-authority: x", "")),
              HasSubstr("exclude each other"));
  EXPECT_THAT(refusal(config_with("server: 'https://h'", ""), "nowhere"), HasSubstr("no context 'nowhere'"));
  EXPECT_THAT(refusal(config_with("server: 'https://h'", ""), "there"), HasSubstr("names no cluster"));
  EXPECT_THAT(refusal("[1, 2]"), HasSubstr("not a mapping"));
  EXPECT_THAT(refusal("a: [", ""), HasSubstr("line "));
  EXPECT_THAT(refusal("{}"), HasSubstr("no current-context"));
}

TEST(KubeconfigTest, AMissingFileIsNamed) {
  const testing::TempDir dir;
  const auto config = load_kubeconfig(dir / "config");
  ASSERT_FALSE(config);
  EXPECT_THAT(config.error().message, HasSubstr((dir / "config").string()));
}

TEST(InClusterConfigTest, EnvironmentAndServiceAccountTellTheCluster) {
  const testing::TempDir dir;
  std::ofstream(dir / "token") << "t1\n";
  std::ofstream(dir / "namespace") << "agents";
  std::map<std::string, std::string, std::less<>> env = {{"KUBERNETES_SERVICE_HOST", "fd00::1"},
                                                         {"KUBERNETES_SERVICE_PORT", "443"}};
  const Environment environment = [&](std::string_view name) -> std::optional<std::string> {
    const auto found = env.find(name);
    return found == env.end() ? std::nullopt : std::optional(found->second);
  };
  const auto config = in_cluster_config(environment, dir.path());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->server, "https://[fd00::1]:443");
  EXPECT_EQ(config->ns, "agents");
  EXPECT_EQ(config->token.file, dir / "token");
  EXPECT_EQ(config->ca.file, dir / "ca.crt");

  std::filesystem::remove(dir / "token");
  EXPECT_THAT(in_cluster_config(environment, dir.path()).error().message, HasSubstr("token"));
  env.clear();
  EXPECT_THAT(in_cluster_config(environment, dir.path()).error().message, HasSubstr("name a kubeconfig"));
}

TEST(WatchedFileTest, AnExchangedFileIsSeen) {
  const testing::TempDir dir;
  WatchedFile file(dir / "token");
  EXPECT_TRUE(file.changed());
  EXPECT_FALSE(file.read());
  std::ofstream(dir / "token") << "one\n";
  EXPECT_EQ(file.read().value(), "one");
  EXPECT_FALSE(file.changed());
  // A cluster exchanges files by renaming a link to another directory.
  std::ofstream(dir / "next") << "two\n";
  std::filesystem::rename(dir / "next", dir / "token");
  EXPECT_TRUE(file.changed());
  EXPECT_EQ(file.read().value(), "two");
  std::ofstream(dir / "token") << "";
  EXPECT_THAT(file.read().error().message, HasSubstr("is empty"));
  EXPECT_TRUE(file.changed());
}

}  // namespace
}  // namespace osb::kubernetes
