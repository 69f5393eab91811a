#include "config/reload.h"

#include <gmock/gmock.h>

namespace osb::config {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

ServerConfig parse(std::string_view toml) {
  auto config = parse_server_config(toml, "test.toml", {});
  EXPECT_TRUE(config) << config.error().message;
  return std::move(*config);
}

TEST(Reload, NothingDiffersFromItself) {
  ServerConfig running = parse("[server]\nport = 1\n");
  const auto changes = take_over(running, parse("[server]\nport = 1\n"));
  EXPECT_THAT(changes.live, IsEmpty());
  EXPECT_THAT(changes.restart, IsEmpty());
}

TEST(Reload, SeparatesLiveKeysFromKeysThatNeedARestart) {
  ServerConfig running = parse("");
  const auto changes = take_over(running, parse(R"(
[server]
port = 9000
api_key = "new"
limit_concurrency = 7
[log]
level = "debug"
[admission]
max_sandboxes = 3
[storage]
allowed_host_paths = ["/data"]
[store]
path = "/elsewhere.db"
[native]
socket = "/other.sock"
[renew_intent]
enabled = true
[renew_intent.redis]
queue_key = "q"
)"));
  EXPECT_THAT(changes.live, ElementsAre("[server] api_key", "[server] limit_concurrency", "[log]", "[admission]",
                                        "[storage] allowed_host_paths", "[renew_intent] enabled"));
  EXPECT_THAT(changes.restart, ElementsAre("[server] port", "[native]", "[store]", "[renew_intent.redis]"));
  EXPECT_EQ(running.server.api_key, "new");
  EXPECT_EQ(running.admission.max_sandboxes, 3);
  EXPECT_EQ(running.server.port, 8080) << "named again by the next reload";
  EXPECT_THAT(take_over(running, parse("[server]\nport = 9000\n")).restart, ElementsAre("[server] port"));
}

// Every key of the contract, and ours: a value that is not the default is noticed, a wrong one is refused by name.
TEST(Reload, EveryKeyIsReadAndChecked) {
  const std::string_view kDocker = "[runtime]\ntype = \"docker\"\nexecd_image = \"e\"\n";
  const std::string_view kCluster = "[runtime]\ntype = \"kubernetes\"\nexecd_image = \"e\"\n";
  const std::string agent = std::string(kCluster) + "[kubernetes]\nworkload_provider = \"agent-sandbox\"\n";
  const std::string gateway = std::string(kCluster) +
                              "[ingress]\nmode = \"gateway\"\n[ingress.gateway]\naddress = \"a.example\"\n"
                              "[ingress.gateway.route]\nmode = \"header\"\n";
  const std::string signing = gateway +
                              "[[ingress.secure_access.keys]]\nkey_id = \"a\"\nkey = \"c2VjcmV0\"\n"
                              "[[ingress.secure_access.keys]]\nkey_id = \"b\"\nkey = \"c2VjcmV0\"\n";
  const struct {
    std::string_view around, section, key, good, bad;  // bad "": no text is wrong
  } rows[] = {
      {"", "server", "host", "\"::1\"", "\"\""},
      {"", "server", "port", "81", "0"},
      {"", "server", "api_key", "\"k\"", "1"},
      {"", "server", "eip", "\"e\"", "[]"},
      {"", "server", "headerless_clients", "[\"agent/\"]", "[\"\"]"},
      {"", "server", "max_sandbox_timeout_seconds", "60", "59"},
      {"", "server", "timeout_keep_alive", "1", "0"},
      {"", "server", "timeout_graceful_shutdown", "1", "0"},
      {"[runtime]\ntype = \"docker\"\nexecd_image = \"e\"\n", "", "execd_run_as_init", "true", "\"perhaps\""},
      {"", "proxy", "answer_timeout_seconds", "1", "0"},
      {kDocker, "proxy", "resolve_internal", "false", "\"perhaps\""},
      {kDocker, "docker", "port_range_min", "1024", "1023"},
      {kDocker, "docker", "port_range_max", "65535", "40099"},
      {kDocker, "docker", "sandbox_env", "{ A = \"b\" }", "{ A = 1 }"},
      {kDocker, "docker", "sandbox_binds", "[\"/a:/b:ro\"]", "[\"/a\"]"},
      {"", "server", "limit_concurrency", "0", "-1"},
      {"", "server", "backlog", "1", "0"},
      {"", "log", "level", "\"debug\"", "\"x\""},
      {"", "log", "format", "\"json\"", "\"xml\""},
      {"", "log", "file_enabled", "\"yes\"", "\"maybe\""},
      {"", "log", "file_path", "\"/f\"", "1"},
      {"", "log", "access_file_path", "\"/f\"", "1"},
      {"", "log", "audit_file_path", "\"/f\"", "1"},
      {"", "log", "file_max_bytes", "\"1\"", "0"},
      {"", "log", "file_backup_count", "0", "-1"},
      {"", "native", "socket", "\"/s\"", "\"s\""},
      {"", "native", "request_timeout", "1", "0"},
      {"", "admission", "max_sandboxes", "1", "-2"},
      {"", "admission", "max_concurrent_creates", "1", "0"},
      {"", "admission", "max_queued_creates", "0", "-1"},
      {"", "templates", "build_timeout_seconds", "60", "0"},
      {"", "templates", "publish_directories", "[\"/d\"]", "\"/d\""},
      {"", "templates", "publish_registries", "[\"r.example.com/team\"]", "\"r\""},
      {"", "templates", "registry_auth_file", "\"/auth.json\"", "1"},
      {"", "storage", "allowed_host_paths", "[\"/d\"]", "\"/d\""},
      {"", "storage", "volume_default_size", "\"2Gi\"", "1"},
      {"", "storage", "ossfs_mount_root", "\"/o\"", "\"o\""},
      {"", "store", "path", "\"/p\"", "\"\""},
      {"", "egress", "image", "\"i\"", "1"},
      {"", "egress", "mode", "\"dns\"", "\"nft\""},
      {"", "egress", "dns_upstream", "[\"10.0.0.53\"]", "1"},
      {"", "egress", "otlp_endpoint", "\"http://h\"", "\"h\""},
      {"", "egress", "readiness_timeout_seconds", "2.5", "0"},
      {"", "egress", "requests", "{cpu = \"1\"}", "1"},
      {"", "egress", "limits", "{cpu = \"1\"}", "1"},
      {"", "egress", "disable_ipv6", "false", "\"perhaps\""},
      {"", "policies", "directory", "\"/d\"", "1"},
      {"", "policies", "default", "\"t\"", "1"},
      {"", "credentials", "entries", "[{name='e',provider='file',file='/f',hosts=['a.b']}]", "[{name='e'}]"},
      {"", "secure_runtime", "type", "\"gvisor\"", "\"qemu\""},
      {"[secure_runtime]\ntype = \"kata\"\n", "", "docker_runtime", "\"r\"", "1"},
      {"[secure_runtime]\ntype = \"kata\"\n", "", "k8s_runtime_class", "\"r\"", "1"},
      {"", "renew_intent", "enabled", "true", "\"perhaps\""},
      {"", "renew_intent", "min_interval_seconds", "1", "0"},
      {"[renew_intent.redis]\ndsn = \"redis://h\"\n", "", "enabled", "true", "\"perhaps\""},
      {"", "renew_intent.redis", "dsn", "\"redis://h\"", "1"},
      {"", "renew_intent.redis", "queue_key", "\"q\"", "\"\""},
      {"", "renew_intent.redis", "consumer_concurrency", "1", "0"},
      {"", "docker", "network_mode", "\"host\"", "\"\""},
      {kDocker, "docker", "isolate_network", "false", "\"perhaps\""},
      {kDocker, "docker", "allow_private_networks", "true", "\"perhaps\""},
      {kDocker, "docker", "allowed_networks", "[\"10.1.0.0/16\", \"10.2.3.4/32\"]", "[\"10.1.0.1/16\"]"},
      {kDocker, "docker", "max_connections", "0", "-1"},
      {kDocker, "docker", "total_connections", "0", "-2"},
      {kDocker, "docker", "publish_host", "\"192.0.2.1\"", "\"::1\""},
      {kDocker, "docker", "api_timeout", "1", "0"},
      {kDocker, "docker", "host_ip", "\"h\"", "1"},
      {kDocker, "docker", "drop_capabilities", "[]", "\"ALL\""},
      {kDocker, "docker", "apparmor_profile", "\"p\"", "1"},
      {kDocker, "docker", "no_new_privileges", "false", "\"perhaps\""},
      {kDocker, "docker", "seccomp_profile", "\"p\"", "1"},
      {kDocker, "docker", "pids_limit", "0", "-2"},
      {kCluster, "kubernetes", "kubeconfig_path", "\"/k\"", "1"},
      {kCluster, "kubernetes", "namespace", "\"n\"", "1"},
      {kCluster, "kubernetes", "workload_provider", "\"Agent-Sandbox\"", "\"x\""},
      {kCluster, "kubernetes", "batchsandbox_template_file", "\"/t\"", "1"},
      {kCluster, "kubernetes", "image_pull_policy", "\"Always\"", "1"},
      {kCluster, "kubernetes", "sandbox_create_timeout_seconds", "1", "0"},
      {kCluster, "kubernetes", "sandbox_create_poll_interval_seconds", "0.5", "0"},
      {kCluster, "kubernetes", "pool_acquisition_timeout_seconds", "1", "0"},
      {kCluster, "kubernetes", "informer_resync_seconds", "1", "0"},
      {kCluster, "kubernetes", "informer_watch_timeout_seconds", "1", "0"},
      {kCluster, "kubernetes", "read_qps", "1.5", "-1"},
      {kCluster, "kubernetes", "write_qps", "1", "-1"},
      {kCluster, "kubernetes", "read_burst", "1", "-1"},
      {kCluster, "kubernetes", "write_burst", "1", "-1"},
      {kCluster, "kubernetes.execd_init_resources", "limits", "{cpu = \"1\"}", "1"},
      {kCluster, "kubernetes.execd_init_resources", "requests", "{cpu = \"1\"}", "1"},
      {agent, "agent_sandbox", "template_file", "\"/t\"", "1"},
      {agent, "agent_sandbox", "shutdown_policy", "\"Retain\"", "\"retain\""},
      {agent, "agent_sandbox", "ingress_enabled", "false", "\"perhaps\""},
      {signing, "ingress.secure_access", "active_key", "\"b\"", "\"c\""},
  };
  // The other configuration: the same without the key.
  for (const auto& row : rows) {
    const auto file = [&](std::string_view value) {
      std::string text(row.around);
      if (!row.section.empty()) text += "[" + std::string(row.section) + "]\n";
      if (!value.empty()) text += std::string(row.key) + " = " + std::string(value) + "\n";
      return text;
    };
    const bool needed = row.key == "active_key";
    auto before = parse_server_config(file(needed ? "\"a\"" : ""), "test.toml", {});
    ASSERT_TRUE(before) << row.section << " " << row.key << ": " << before.error().message;
    const auto after = parse_server_config(file(row.good), "test.toml", {});
    ASSERT_TRUE(after) << row.section << " " << row.key << ": " << after.error().message;
    const Changes changes = take_over(*before, *after);
    EXPECT_EQ(changes.live.size() + changes.restart.size(), 1u) << row.section << " " << row.key;
    if (row.bad.empty()) continue;
    const auto wrong = parse_server_config(file(row.bad), "test.toml", {});
    ASSERT_FALSE(wrong) << row.section << " " << row.key << " = " << row.bad;
    EXPECT_NE(wrong.error().message.find(row.key), std::string::npos) << wrong.error().message;
  }
  // Read and checked, but there is nothing here that they could change.
  for (const std::string_view key : {"thread_pool_size = 1", "loop = \"uvloop\"", "http = \"h11\""}) {
    EXPECT_TRUE(parse_server_config("[server]\n" + std::string(key), "test.toml", {})) << key;
  }
  for (const std::string_view key : {"thread_pool_size = 0", "loop = \"x\"", "http = \"x\""}) {
    EXPECT_FALSE(parse_server_config("[server]\n" + std::string(key), "test.toml", {})) << key;
  }
}

}  // namespace
}  // namespace osb::config
