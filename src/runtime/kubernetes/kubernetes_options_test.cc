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

TEST_F(ClusterOptions, TheProviderHasATemplateOfItsOwn) {
  config.kubernetes.workload_provider = "agent-sandbox";
  config.agent_sandbox.shutdown_policy = "Retain";
  config.agent_sandbox.template_file = "~/agent.yaml";
  write("agent.yaml", "spec: {podTemplate: {spec: {}}}");
  config.kubernetes.pool_acquisition_timeout = std::chrono::seconds(7);
  config.egress.image = "egress:1";
  config.ingress.gateway = true;
  const auto options = kubernetes_options(config, environment);
  ASSERT_TRUE(options) << options.error().message;
  EXPECT_EQ(options->provider, WorkloadProvider::AgentSandbox);
  EXPECT_EQ(options->shutdown_policy, "Retain");
  EXPECT_TRUE(options->workload.contains("spec"));
  EXPECT_EQ(options->pool_timeout, std::chrono::seconds(7));
  EXPECT_EQ(options->egress.image, "egress:1");
  EXPECT_FALSE(options->signed_routes) << "there are no keys";
}

TEST_F(ClusterOptions, MistakesNameTheirSetting) {
  config.kubernetes.batchsandbox_template_file = "~/missing";
  EXPECT_NE(refused().find("batchsandbox_template_file"), std::string::npos) << refused();
  write("missing", "spec: 5");
  EXPECT_NE(refused().find("spec: expected a mapping"), std::string::npos) << refused();
  config.kubernetes.workload_provider = "agent-sandbox";
  config.agent_sandbox.template_file = "~/missing";
  EXPECT_NE(refused().find("[agent_sandbox] template_file"), std::string::npos) << refused();
  config.kubernetes.kubeconfig_path = "~/none";
  EXPECT_NE(refused().find("kubeconfig_path"), std::string::npos) << refused();
}

}  // namespace
}  // namespace osb::runtime
