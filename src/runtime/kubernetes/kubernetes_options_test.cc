#include "runtime/kubernetes/kubernetes_options.h"

#include <fstream>

#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace osb::runtime {
namespace {

class ClusterOptions : public ::testing::Test {
 protected:
  ClusterOptions() {
    environment.variables["HOME"] = temp.path().string();
    config.runtime.type = config::RuntimeType::Kubernetes;
    config.runtime.execd_image = "execd:1";
    config.kubernetes.kubeconfig_path = "~/config";
    write("config",
          "{current-context: c, contexts: [{name: c, context: {cluster: k, user: u, namespace: mine}}], "
          "clusters: [{name: k, cluster: {server: \"https://cluster.test:6443\"}}], users: [{name: u, user: {token: "
          "t}}]}");
  }
  void write(const std::string& name, const std::string& text) { std::ofstream(temp / name) << text; }
  std::string refused() {
    const auto options = kubernetes_options(config, environment);
    return options ? "" : options.error().message;
  }

  osb::testing::TempDir temp;
  config::Environment environment;
  config::ServerConfig config;
};

TEST_F(ClusterOptions, TheKubeconfigNamesTheNamespaceUnlessASettingDoes) {
  EXPECT_EQ(kubernetes_options(config, environment)->ns, "mine");
  config.kubernetes.name_space = "boxes";
  config.kubernetes.read_qps = 5;
  const auto options = kubernetes_options(config, environment);
  ASSERT_TRUE(options) << options.error().message;
  EXPECT_EQ(options->ns, "boxes");
  EXPECT_EQ(options->client.read_qps, 5);
  EXPECT_EQ(options->cluster.server, "https://cluster.test:6443");
}

TEST_F(ClusterOptions, MistakesNameTheirSetting) {
  config.kubernetes.batchsandbox_template_file = "~/missing";
  EXPECT_NE(refused().find("batchsandbox_template_file"), std::string::npos) << refused();
  write("missing", "spec: 5");
  EXPECT_NE(refused().find("spec: expected a mapping"), std::string::npos) << refused();
  config.kubernetes.workload_provider = "agent-sandbox";
  EXPECT_NE(refused().find("workload_provider"), std::string::npos) << refused();
  config.kubernetes.workload_provider = "batchsandbox";
  config.ingress.gateway = true;
  EXPECT_NE(refused().find("[ingress] mode"), std::string::npos) << refused();
  config.ingress.gateway = false;
  config.kubernetes.kubeconfig_path = "~/none";
  EXPECT_NE(refused().find("kubeconfig_path"), std::string::npos) << refused();
}

}  // namespace
}  // namespace osb::runtime
