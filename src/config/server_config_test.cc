#include "config/server_config.h"

#include <fstream>

#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace osb::config {
namespace {

using std::chrono::seconds;

const Environment kHome{{{"HOME", "/home/me"}}};

Result<ServerConfig> parse(std::string_view toml, const Environment& environment = kHome) {
  return parse_server_config(toml, "server.toml", environment);
}

TEST(ServerConfigFile, WithoutAFileItIsNativeOnLoopback) {
  const auto config = load_server_config("", Environment{{{"HOME", "/nonexistent/home"}}});
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->runtime.type, RuntimeType::Native);
  EXPECT_EQ(config->server.host, "127.0.0.1");
  EXPECT_EQ(config->server.port, 8080);
  EXPECT_EQ(config->store.path, "/nonexistent/home/.opensandbox/opensandbox.db");
  EXPECT_TRUE(config->source.empty());
}

TEST(ServerConfigFile, ThePathComesFromTheFlagThenTheEnvironmentThenHome) {
  const testing::TempDir directory;
  std::ofstream(directory / ".sandbox.toml") << "[server]\nport = 1\n";
  std::ofstream(directory / "by-variable.toml") << "[server]\nport = 2\n";
  std::ofstream(directory / "by-flag.toml") << "[server]\nport = 3\n";
  Environment environment{{{"HOME", directory.path().string()}}};
  EXPECT_EQ(load_server_config("", environment)->server.port, 1);
  environment.variables["SANDBOX_CONFIG_PATH"] = "~/by-variable.toml";
  EXPECT_EQ(load_server_config("", environment)->server.port, 2);
  const auto config = load_server_config("~/by-flag.toml", environment);
  EXPECT_EQ(config->server.port, 3);
  EXPECT_EQ(config->server.host, "0.0.0.0") << "the contract's default for a file";
  EXPECT_EQ(config->source, directory / "by-flag.toml");
}

TEST(ServerConfigFile, AFileThatWasNamedMustBeThere) {
  const testing::TempDir directory;
  const auto by_flag = load_server_config((directory / "typo.toml").string(), kHome);
  ASSERT_FALSE(by_flag);
  EXPECT_NE(by_flag.error().message.find("typo.toml"), std::string::npos);
  Environment environment = kHome;
  environment.variables["SANDBOX_CONFIG_PATH"] = (directory / "typo.toml").string();
  EXPECT_FALSE(load_server_config("", environment));
  EXPECT_FALSE(load_server_config(directory.path().string(), kHome)) << "a directory";
}

TEST(ServerConfigText, TheDefaultsAreTheContracts) {
  const auto config = parse("");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->server.timeout_keep_alive, seconds(30));
  EXPECT_EQ(config->server.limit_concurrency, 1024);
  EXPECT_EQ(config->server.backlog, 2048);
  EXPECT_EQ(config->server.thread_pool_size, 200);
  EXPECT_FALSE(config->server.max_sandbox_timeout);
  EXPECT_EQ(config->log.level, "INFO");
  EXPECT_EQ(config->log.file_path, "/home/me/logs/opensandbox/server.log");
  EXPECT_EQ(config->log.access_file_path, "/home/me/logs/opensandbox/access.log");
  EXPECT_EQ(config->log.file_max_bytes, 104857600);
  EXPECT_EQ(config->docker.network_mode, "bridge");
  EXPECT_EQ(config->docker.drop_capabilities.size(), 9u);
  EXPECT_EQ(config->docker.pids_limit, 4096);
  EXPECT_EQ(config->egress.mode, "dns+nft");
  EXPECT_TRUE(config->storage.allowed_host_paths.empty());
  EXPECT_EQ(config->renew_intent.redis.queue_key, "opensandbox:renew:intent");
  EXPECT_EQ(config->pending_failure_ttl, seconds(3600));
}

TEST(ServerConfigText, TakesEveryKey) {
  const auto config = parse(R"(
[server]
host = "10.0.0.1"
port = "9000"
api_key = "k"
eip = "sandbox.example.com"
headerless_clients = ["OpenSandbox-Kotlin-SDK/"]
max_sandbox_timeout_seconds = 60
timeout_keep_alive = 5
limit_concurrency = 0
backlog = 1
thread_pool_size = 2
loop = "uvloop"
http = "h11"
[log]
level = "debug"
format = "json"
file_enabled = "yes"
file_path = "~/server.log"
access_file_path = "/var/log/access.log"
audit_file_path = "/var/log/audit.log"
file_max_bytes = 1
file_backup_count = 0
[runtime]
type = "docker"
execd_image = "execd:1"
[docker]
network_mode = "MyNet"
api_timeout = 10
host_ip = "host.docker.internal"
drop_capabilities = []
apparmor_profile = "a"
no_new_privileges = false
seccomp_profile = "s"
pids_limit = 0
[egress]
image = "egress:1"
mode = "dns"
disable_ipv6 = false
dns_upstream = ["10.0.0.53"]
otlp_endpoint = "http://collector:4318"
readiness_timeout_seconds = 1.5
requests = {cpu = "10m"}
limits = {cpu = "1", memory = "64Mi"}
[storage]
allowed_host_paths = ["/srv", "/data"]
volume_default_size = "2Gi"
ossfs_mount_root = "/oss"
[store]
type = "sqlite"
path = "/var/lib/x.db"
[secure_runtime]
type = "gvisor"
docker_runtime = "my-runsc"
[renew_intent]
enabled = true
min_interval_seconds = 10
redis.enabled = true
redis.dsn = "redis://:secret@localhost"
redis.queue_key = "q"
redis.consumer_concurrency = 2
[native]
socket = "/tmp/s.sock"
request_timeout = 7
[admission]
max_sandboxes = 5
max_concurrent_creates = 6
max_queued_creates = 0
[pause]
legacy = true
)");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->server.host, "10.0.0.1");
  EXPECT_EQ(config->server.port, 9000);
  EXPECT_EQ(config->server.api_key, "k");
  EXPECT_EQ(config->server.eip, "sandbox.example.com");
  EXPECT_EQ(config->server.headerless_clients, std::vector<std::string>{"OpenSandbox-Kotlin-SDK/"});
  EXPECT_EQ(config->server.max_sandbox_timeout, seconds(60));
  EXPECT_EQ(config->server.timeout_keep_alive, seconds(5));
  EXPECT_EQ(config->server.limit_concurrency, 0);
  EXPECT_EQ(config->server.backlog, 1);
  EXPECT_EQ(config->server.thread_pool_size, 2);
  EXPECT_EQ(config->log.level, "DEBUG");
  EXPECT_EQ(config->log.format, "json");
  EXPECT_TRUE(config->log.file_enabled);
  EXPECT_EQ(config->log.file_path, "/home/me/server.log");
  EXPECT_EQ(config->log.access_file_path, "/var/log/access.log");
  EXPECT_EQ(config->log.audit_file_path, "/var/log/audit.log");
  EXPECT_EQ(config->log.file_max_bytes, 1);
  EXPECT_EQ(config->log.file_backup_count, 0);
  EXPECT_EQ(config->runtime.type, RuntimeType::Docker);
  EXPECT_EQ(config->runtime.execd_image, "execd:1");
  EXPECT_EQ(config->docker.network_mode, "MyNet") << "names of networks have a case";
  EXPECT_EQ(config->docker.api_timeout, seconds(10));
  EXPECT_EQ(config->docker.host_ip, "host.docker.internal");
  EXPECT_TRUE(config->docker.drop_capabilities.empty());
  EXPECT_FALSE(config->docker.no_new_privileges);
  EXPECT_EQ(config->docker.pids_limit, std::nullopt);
  EXPECT_EQ(config->egress.image, "egress:1");
  EXPECT_EQ(config->egress.mode, "dns");
  EXPECT_FALSE(config->egress.disable_ipv6);
  EXPECT_EQ(config->egress.dns_upstream, std::vector<std::string>{"10.0.0.53"});
  EXPECT_EQ(config->egress.otlp_endpoint, "http://collector:4318");
  EXPECT_EQ(config->egress.readiness_timeout.count(), 1.5);
  EXPECT_EQ(config->egress.requests, (std::map<std::string, std::string>{{"cpu", "10m"}}));
  EXPECT_EQ(config->egress.limits, (std::map<std::string, std::string>{{"cpu", "1"}, {"memory", "64Mi"}}));
  EXPECT_EQ(config->storage.allowed_host_paths, (std::vector<std::string>{"/srv", "/data"}));
  EXPECT_EQ(config->store.path, "/var/lib/x.db");
  EXPECT_EQ(config->secure_runtime.docker_runtime, "my-runsc");
  EXPECT_EQ(config->secure_runtime.k8s_runtime_class, "gvisor");
  EXPECT_TRUE(config->renew_intent.redis.enabled);
  EXPECT_EQ(config->renew_intent.redis.dsn, "redis://:secret@localhost");
  EXPECT_EQ(config->renew_intent.redis.queue_key, "q");
  EXPECT_EQ(config->renew_intent.redis.consumer_concurrency, 2);
  EXPECT_EQ(config->native.socket, "/tmp/s.sock");
  EXPECT_EQ(config->native.request_timeout, seconds(7));
  EXPECT_EQ(config->admission.max_sandboxes, 5);
  EXPECT_EQ(config->admission.max_concurrent_creates, 6);
  EXPECT_EQ(config->admission.max_queued_creates, 0);
  const std::string line = describe(*config);
  EXPECT_EQ(line.find("secret"), std::string::npos) << line;
  EXPECT_EQ(line.find("api_key=k"), std::string::npos) << line;
}

TEST(ServerConfigText, TakesEveryKeyOfACluster) {
  const auto config = parse(R"(
[runtime]
type = "kubernetes"
execd_image = "execd:1"
[kubernetes]
kubeconfig_path = "/k"
namespace = "n"
workload_provider = "Agent-Sandbox"
batchsandbox_template_file = "/t"
image_pull_policy = "Always"
sandbox_create_timeout_seconds = 1
sandbox_create_poll_interval_seconds = 0.5
informer_resync_seconds = 3
informer_watch_timeout_seconds = 4
read_qps = 1.5
write_qps = 2
read_burst = 5
write_burst = 6
[kubernetes.execd_init_resources]
limits = { cpu = "1" }
requests = { memory = "1Mi" }
[agent_sandbox]
template_file = "/a"
shutdown_policy = "Retain"
ingress_enabled = false
[ingress]
mode = "gateway"
gateway.address = "*.sandbox.example.com"
gateway.route.mode = "wildcard"
[ingress.secure_access]
active_key = "a"
[[ingress.secure_access.keys]]
key_id = "a"
key = "bXktYmFzZTY0LWRlY29kZWQtc2VjcmV0IQ=="
[[ingress.secure_access.keys]]
key_id = "0"
key = "AAECAw"
[secure_runtime]
type = "firecracker"
k8s_runtime_class = "fc"
)");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->kubernetes.name_space, "n");
  EXPECT_EQ(config->kubernetes.workload_provider, "agent-sandbox");
  EXPECT_EQ(config->kubernetes.sandbox_create_poll_interval.count(), 0.5);
  EXPECT_EQ(config->kubernetes.read_qps, 1.5);
  EXPECT_EQ(config->kubernetes.write_burst, 6);
  EXPECT_EQ(config->kubernetes.execd_init_limits.at("cpu"), "1");
  EXPECT_EQ(config->kubernetes.execd_init_requests.at("memory"), "1Mi");
  EXPECT_EQ(config->agent_sandbox.shutdown_policy, "Retain");
  EXPECT_EQ(config->ingress.address, "*.sandbox.example.com");
  EXPECT_EQ(config->ingress.active_key, 'a');
  ASSERT_EQ(config->ingress.keys.size(), 2u);
  EXPECT_EQ(config->ingress.keys[0].secret, "my-base64-decoded-secret!");
  EXPECT_EQ(config->ingress.keys[1].secret, std::string("\0\1\2\3", 4));
  EXPECT_EQ(describe(*config).find("my-base64"), std::string::npos);
}

TEST(ServerConfigText, TheEnvironmentReplacesTheKeyEvenWithNothing) {
  Environment environment = kHome;
  environment.variables["OPENSANDBOX_SERVER_API_KEY"] = "";
  EXPECT_EQ(parse("[server]\napi_key = 'x'", environment)->server.api_key, "");
  environment.variables["OPENSANDBOX_SERVER_API_KEY"] = "y";
  EXPECT_EQ(parse("[server]\napi_key = 'x'", environment)->server.api_key, "y");
  environment.variables["PENDING_FAILURE_TTL"] = "7";
  EXPECT_EQ(parse("", environment)->pending_failure_ttl, seconds(7));
  environment.variables["PENDING_FAILURE_TTL"] = "soon";
  EXPECT_FALSE(parse("", environment));
}

TEST(ServerConfigText, ErrorsAreNamedWithTheirLine) {
  constexpr std::string_view kDocker = "[runtime]\ntype='docker'\nexecd_image='e'\n";
  constexpr std::string_view kCluster = "[runtime]\ntype='kubernetes'\nexecd_image='e'\n";
  constexpr std::string_view kGateway =
      "[runtime]\ntype='kubernetes'\nexecd_image='e'\n[ingress]\nmode='gateway'\n[ingress.gateway]\n";
  const struct {
    std::string_view before, toml, message;
  } rows[] = {
      {"", "[server]\nhost = ''", "server.toml:2: [server] host: must not be empty"},
      {"", "[server]\nport = 0", "server.toml:2: [server] port: expected an integer from 1 to 65535"},
      {"", "[server]\nport = 70000", "server.toml:2: [server] port: expected an integer from 1 to 65535"},
      {"", "[server]\nport = 80.5", "server.toml:2: [server] port: expected an integer from 1 to 65535"},
      {"", "[server]\napi_key = 12345", "server.toml:2: [server] api_key: expected a string"},
      {"", "[server]\nmax_sandbox_timeout_seconds = 59", "[server] max_sandbox_timeout_seconds: expected an integer"},
      {"", "[server]\ntimeout_keep_alive = 0", "[server] timeout_keep_alive: expected an integer"},
      {"", "[server]\nlimit_concurrency = -1", "[server] limit_concurrency: expected an integer"},
      {"", "[server]\nbacklog = 0", "[server] backlog: expected an integer"},
      {"", "[server]\nthread_pool_size = 0", "[server] thread_pool_size: expected an integer"},
      {"", "[server]\nloop = 'x'", "[server] loop: expected one of \"auto\", \"uvloop\", \"asyncio\""},
      {"", "[server]\nhttp = 'x'", "[server] http: expected one of"},
      {"", "server = 1", "server.toml:1: [server]: expected a table"},
      {"", "[log]\nlevel = 'x'", "[log] level: expected a level"},
      {"", "[log]\nformat = 'x'", "[log] format: expected one of"},
      {"", "[log]\nfile_enabled = 'maybe'", "[log] file_enabled: expected true or false"},
      {"", "[log]\nfile_max_bytes = 0", "[log] file_max_bytes: expected an integer of at least 1"},
      {"", "[log]\nfile_backup_count = -1", "[log] file_backup_count: expected an integer"},
      {"", "[runtime]\ntype = 'Docker'", "server.toml:2: [runtime] type: expected one of"},
      {"", "[runtime]\ntype = 'docker'", "[runtime] execd_image: required with type = \"docker\""},
      {"", "[runtime]\ntype = 'kubernetes'\nexecd_image = ''", "server.toml:3: [runtime] execd_image: required"},
      {"", "[native]\nsocket = 'x'", "[native] socket: expected an absolute path"},
      {"", "[native]\nrequest_timeout = 0", "[native] request_timeout: expected an integer"},
      {"", "[admission]\nmax_sandboxes = -2", "[admission] max_sandboxes: expected an integer"},
      {"", "[admission]\nmax_concurrent_creates = 0", "[admission] max_concurrent_creates: expected an integer"},
      {kDocker, "[docker]\nnetwork_mode = ''", "server.toml:5: [docker] network_mode: must not be empty"},
      {kDocker, "[docker]\napi_timeout = 0", "[docker] api_timeout: expected an integer"},
      {kDocker, "[docker]\npids_limit = -2", "[docker] pids_limit: expected an integer"},
      {kDocker, "[docker]\ndrop_capabilities = [1]", "[docker] drop_capabilities: expected an array of strings"},
      {kDocker, "[kubernetes]", "server.toml:4: [kubernetes]: not allowed with [runtime] type = \"docker\""},
      {kDocker, "[agent_sandbox]", "[agent_sandbox]: not allowed with [runtime] type = \"docker\""},
      {kDocker, "[ingress]\nmode='gateway'\ngateway.address='a.b'\ngateway.route.mode='uri'",
       "[ingress] mode: must be \"direct\""},
      {kDocker, "[secure_runtime]\ntype='firecracker'\nk8s_runtime_class='x'",
       "[secure_runtime] type: firecracker needs"},
      {kCluster, "[agent_sandbox]", "[agent_sandbox]: only allowed with [kubernetes] workload_provider"},
      {kCluster, "[kubernetes]\nworkload_provider='x'", "[kubernetes] workload_provider: expected"},
      {kCluster, "[kubernetes]\nsandbox_create_timeout_seconds=0", "[kubernetes] sandbox_create_timeout_seconds"},
      {kCluster, "[kubernetes]\nsandbox_create_poll_interval_seconds=0",
       "[kubernetes] sandbox_create_poll_interval_seconds: must be above 0"},
      {kCluster, "[kubernetes]\ninformer_resync_seconds=0", "[kubernetes] informer_resync_seconds"},
      {kCluster, "[kubernetes]\ninformer_watch_timeout_seconds=0", "[kubernetes] informer_watch_timeout_seconds"},
      {kCluster, "[kubernetes]\nread_qps=-1", "[kubernetes] read_qps: must not be negative"},
      {kCluster, "[kubernetes]\nwrite_burst=-1", "[kubernetes] write_burst: expected an integer"},
      {kCluster, "[kubernetes.execd_init_resources]\nlimits={cpu=1}",
       "[kubernetes.execd_init_resources] limits: expected a table of strings"},
      {kCluster, "[kubernetes]\nworkload_provider='agent-sandbox'\n[agent_sandbox]\nshutdown_policy='delete'",
       "[agent_sandbox] shutdown_policy: expected"},
      {kCluster, "[ingress]\nmode='x'", "[ingress] mode: expected"},
      {kCluster, "[ingress]\nmode='gateway'", "[ingress] gateway: required"},
      {kCluster, "[ingress]\ngateway.address='a.b'", "[ingress] gateway: only allowed"},
      {kCluster, "[ingress.secure_access]\nactive_key='a'", "[ingress.secure_access]: only allowed with"},
      {kGateway, "route.mode='uri'", "[ingress.gateway] address: required"},
      {kGateway, "address='a.b'", "[ingress.gateway.route] mode: expected"},
      {kGateway, "address='http://a.b'\nroute.mode='uri'", "[ingress.gateway] address: must not have a scheme"},
      {kGateway, "address='*.b'\nroute.mode='uri'", "[ingress.gateway] address: must not be blank nor contain"},
      {kGateway, "address='*.b'\nroute.mode='wildcard'", "[ingress.gateway] address: expected *. and a domain"},
      {kGateway, "address='*.a.b:80'\nroute.mode='wildcard'", "[ingress.gateway] address: expected *. and a domain"},
      {kGateway, "address='*.-a.b'\nroute.mode='wildcard'", "[ingress.gateway] address: expected *. and a domain"},
      {kGateway, "address='a.b:0'\nroute.mode='header'", "[ingress.gateway] address: expected a host name"},
      {kGateway, "address='*.a.b'\nroute.mode='header'", "[ingress.gateway] address: expected a host name"},
      {kGateway, "address='a.b'\nroute.mode='uri'\n[ingress.secure_access]\nactive_key='a'",
       "[ingress.secure_access] keys: at least one is needed"},
      {kGateway,
       "address='a.b'\nroute.mode='uri'\n[ingress.secure_access]\nactive_key='b'\nkeys=[{key_id='a',key='AAAA'}]",
       "[ingress.secure_access] active_key: must be"},
      {kGateway,
       "address='a.b'\nroute.mode='uri'\n[ingress.secure_access]\nactive_key='a'\nkeys=[{key_id='A',key='AAAA'}]",
       "[ingress.secure_access] keys: each needs a key_id"},
      {kGateway,
       "address='a.b'\nroute.mode='uri'\n[ingress.secure_access]\nactive_key='a'\nkeys=[{key_id='a',key='?'}]",
       "[ingress.secure_access] keys: key of key_id a must be base64"},
      {kGateway,
       "address='a.b'\nroute.mode='uri'\n[ingress.secure_access]\nactive_key='a'\nkeys=[{key_id='a',key='AAAA'},"
       "{key_id='a',key='AAAA'}]",
       "[ingress.secure_access] keys: key_id a is used twice"},
      {"", "[egress]\nmode = 'x'", "[egress] mode: expected one of"},
      {"", "[egress]\notlp_endpoint = 'collector:4318'", "[egress] otlp_endpoint: "},
      {"", "[egress]\ndns_upstream = ['resolver']", "[egress] dns_upstream: "},
      {"", "[egress]\nreadiness_timeout_seconds = 0", "[egress] readiness_timeout_seconds: "},
      {"", "[storage]\nallowed_host_paths = '/x'", "[storage] allowed_host_paths: expected an array of strings"},
      {"", "[storage]\nossfs_mount_root = 'x'", "[storage] ossfs_mount_root: expected an absolute path"},
      {"", "[store]\ntype = 'mysql'", "[store] type: expected one of \"sqlite\""},
      {"", "[store]\npath = ''", "[store] path: must not be empty"},
      {"", "[secure_runtime]\ntype='x'", "[secure_runtime] type: expected"},
      {"", "[secure_runtime]\ndocker_runtime='x'", "[secure_runtime] type: required"},
      {kDocker, "[secure_runtime]\ntype='kata'", "[secure_runtime] type: docker_runtime or k8s_runtime_class"},
      {kCluster, "[secure_runtime]\ntype='firecracker'", "[secure_runtime] k8s_runtime_class: required"},
      {"", "[renew_intent]\nmin_interval_seconds=0", "[renew_intent] min_interval_seconds: expected an integer"},
      {"", "[renew_intent.redis]\nenabled=true", "[renew_intent.redis] dsn: required"},
      {"", "[renew_intent]\nredis.queue_key=''", "[renew_intent.redis] queue_key: must not be empty"},
      {"", "[renew_intent]\nredis.consumer_concurrency=0", "[renew_intent.redis] consumer_concurrency: expected"},
      {"", "[server\n", "server.toml:1:8: not valid TOML"},
  };
  for (const auto& row : rows) {
    const auto config = parse(std::string(row.before) + std::string(row.toml));
    ASSERT_FALSE(config) << row.toml;
    EXPECT_NE(config.error().message.find(row.message), std::string::npos)
        << config.error().message << "\nwanted: " << row.message;
  }
}

TEST(ServerConfigText, ErrorsRepeatNoValues) {
  for (const std::string_view toml :
       {"[server]\napi_key = 1234567890123456789012345", "[server]\napi_key = 99887766", "[server]\napi_key = hunter2",
        "[server]\napi_key = 'hunter2\n", "[renew_intent]\nredis.dsn = ['hunter2']"}) {
    const auto config = parse(toml);
    ASSERT_FALSE(config) << toml;
    for (const std::string_view secret : {"hunter2", "12345678", "99887766"}) {
      EXPECT_EQ(config.error().message.find(secret), std::string::npos) << config.error().message;
    }
  }
}

}  // namespace
}  // namespace osb::config
