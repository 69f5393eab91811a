#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "config/ceilings.h"

// The server's configuration: a TOML file, the environment, and defaults for everything else, in one typed struct.
// An empty string is "not set" unless a comment says otherwise. Fields keep the names of their keys.
namespace osb::config {

struct ServerSection {
  std::string host = "0.0.0.0";  // 127.0.0.1 when there is no file
  std::uint16_t port = 8080;
  std::string api_key;  // a secret; blank means no authentication, see key_guard.h
  std::string eip;      // public address for endpoints
  // Addition: beginnings of User-Agent; these clients get execd's token in the path of endpoints.
  std::vector<std::string> headerless_clients;
  std::string sandbox_domain = "localhost";  // addition: ports have names {id}-{port}.{domain}; empty: none
  std::vector<std::string> allowed_hosts;  // addition: names in Host besides loopback ones, for a server without a key
  std::vector<std::string> allowed_origins;  // addition: of web pages that may use a server with a key
  std::optional<std::chrono::seconds> max_sandbox_timeout;
  std::chrono::seconds timeout_keep_alive{30};
  std::chrono::seconds timeout_graceful_shutdown{5};
  int limit_concurrency = 1024;          // open connections; 0 is no limit
  int limit_half_sent_per_address = 64;  // addition; 0 is no limit
  int backlog = 2048;
  int thread_pool_size = 200;
  std::string unknown_keys = "refuse";  // addition: or "warn"
};

struct LogSection {
  std::string level = "INFO";   // upper case
  std::string format = "text";  // addition: or "json"
  bool file_enabled = false;
  std::filesystem::path file_path = "~/logs/opensandbox/server.log";  // parsed: without "~", as all paths
  std::filesystem::path access_file_path = "~/logs/opensandbox/access.log";
  std::filesystem::path audit_file_path;  // addition; empty: with the log
  std::int64_t file_max_bytes = 104857600;
  int file_backup_count = 5;

  bool operator==(const LogSection&) const = default;
};

enum class RuntimeType { Native, Docker, Kubernetes };
std::string_view to_string(RuntimeType type);

struct RuntimeSection {
  RuntimeType type = RuntimeType::Native;
  std::string execd_image;  // docker and kubernetes only
  bool execd_run_as_init = false;

  bool operator==(const RuntimeSection&) const = default;
};

// Addition: how to reach sandboxd, the daemon of the native backend.
struct NativeSection {
  std::filesystem::path socket = "/run/opensandbox/sandboxd.sock";
  std::chrono::seconds request_timeout{30};

  bool operator==(const NativeSection&) const = default;
};

// Addition: how much the server takes on before it answers 429.
struct AdmissionSection {
  int max_sandboxes = -1;            // 0 is no limit, -1 the backend's number
  int max_concurrent_creates = 100;  // handed to the backend at once
  int max_queued_creates = 1000;     // waiting behind those

  bool operator==(const AdmissionSection&) const = default;
};

struct TemplatesSection {
  std::chrono::seconds build_timeout{1800};
  std::vector<std::string> publish_directories;  // empty refuses all
  std::vector<std::string> publish_registries;   // empty refuses all
  std::filesystem::path registry_auth_file;      // of `docker login`; "" is none

  bool operator==(const TemplatesSection&) const = default;
};

struct DockerSection {
  std::string network_mode = "bridge";  // host, bridge, none or the name of a network; case kept
  bool isolate_network = true;          // with bridge: sandboxes do not reach each other
  std::string publish_host;             // IPv4; "" is where the server listens
  std::uint16_t port_range_min = 40000, port_range_max = 60000;  // of published ports
  std::map<std::string, std::string> sandbox_env;                // of every sandbox, behind the request's own
  std::vector<std::string> sandbox_binds;                        // of every sandbox: "host:container[:mode]"
  std::chrono::seconds api_timeout{180};
  std::string host_ip;
  std::vector<std::string> drop_capabilities = {"AUDIT_WRITE", "MKNOD",      "NET_ADMIN", "NET_RAW",       "SYS_ADMIN",
                                                "SYS_MODULE",  "SYS_PTRACE", "SYS_TIME",  "SYS_TTY_CONFIG"};
  std::string apparmor_profile;
  bool no_new_privileges = true;
  std::string seccomp_profile;
  std::optional<std::int64_t> pids_limit = 4096;         // nothing: no limit
  Ceilings ceilings;                                     // additions: of memory, CPU and io
  std::string cgroup_parent;                             // addition; empty: the server's own where it can make one
  std::int64_t reserve_bytes = -1, reserve_inodes = -1;  // additions: of the engine's disk, left free
  bool allow_metadata = false;                           // addition: sandboxes reach metadata services
  bool allow_private_networks = false;                   // addition: all of them, without the engine's host
  std::vector<std::string> allowed_networks;             // addition: "10.1.0.0/16"; also addresses of the host
  std::int64_t max_connections = 4096, total_connections = -1;  // additions: of a sandbox, of all; 0 is no limit
  bool allow_setuid_files = false;                              // addition: also in writable host paths

  bool operator==(const DockerSection&) const = default;
};

struct ProxySection {
  std::optional<std::chrono::seconds> answer_timeout;  // addition: until a port's answer begins; nothing: no limit
  bool resolve_internal = true;                        // false: to the ports that the engine publishes

  bool operator==(const ProxySection&) const = default;
};

struct KubernetesSection {
  std::string kubeconfig_path;                     // "" is in-cluster
  std::string name_space;                          // "namespace"
  std::string workload_provider = "batchsandbox";  // lower case; or "agent-sandbox"
  std::string batchsandbox_template_file;
  std::string image_pull_policy = "IfNotPresent";
  std::chrono::seconds sandbox_create_timeout{60};
  std::chrono::duration<double> sandbox_create_poll_interval{1.0};
  std::chrono::seconds pool_acquisition_timeout{30};
  std::chrono::seconds informer_resync{300};
  std::chrono::seconds informer_watch_timeout{60};
  double read_qps = 0, write_qps = 0;   // 0 is no limit
  int read_burst = 0, write_burst = 0;  // 0 follows the rate
  std::map<std::string, std::string> execd_init_limits, execd_init_requests;

  bool operator==(const KubernetesSection&) const = default;
};

struct AgentSandboxSection {
  std::string template_file;
  std::string shutdown_policy = "Delete";  // or "Retain"
  bool ingress_enabled = true;

  bool operator==(const AgentSandboxSection&) const = default;
};

struct SigningKey {
  char key_id = '0';
  std::string secret;  // decoded bytes; a secret

  bool operator==(const SigningKey&) const = default;
};

struct IngressSection {
  bool gateway = false;    // mode = "gateway"
  std::string address;     // of the gateway
  std::string route_mode;  // wildcard, header or uri
  std::optional<char> active_key;
  std::vector<SigningKey> keys;  // empty without [ingress.secure_access]

  bool operator==(const IngressSection&) const = default;
};

// A proxy that intercepted connections of sandboxes on docker go through; without a url there is none.
struct UpstreamProxySection {
  std::string url;
  std::string authorization;           // a secret
  std::filesystem::path ca_cert_path;  // a file with certificates, for a proxy that opens TLS

  bool operator==(const UpstreamProxySection&) const = default;
};

struct EgressSection {
  std::string image;
  std::string mode = "dns+nft";  // or "dns"
  bool disable_ipv6 = true;
  std::vector<std::string> dns_upstream;  // resolvers that sidecars ask; empty: those of this machine
  std::string otlp_endpoint;
  // Of credential vaults.
  std::filesystem::path upstream_ca;  // a file with certificates besides the sidecar's own list
  bool scrub_bodies = false;
  std::vector<std::string> pins;  // "HOST=ADDRESS"
  std::chrono::duration<double> readiness_timeout{30};
  std::map<std::string, std::string> requests, limits;  // resources of a sidecar
  UpstreamProxySection upstream_proxy;

  bool operator==(const EgressSection&) const = default;
};

// Addition: the operator's policy templates.
struct PoliciesSection {
  std::filesystem::path directory;  // empty: none
  std::string default_template;     // "default"

  bool operator==(const PoliciesSection&) const = default;
};

// Addition: a secret of the operator that bindings of credential vaults may use. Requests name it; the server fetches
// its value from the provider. The fields below the provider belong to one provider each.
struct CredentialEntry {
  std::string name;
  std::string provider;                            // file, command, vault-kv2 or oauth2
  std::vector<std::string> hosts;                  // that the value may go to
  std::vector<std::string> tenants = {"default"};  // that may name it; "*" is every tenant
  std::chrono::seconds refresh{0};                 // fetched again after so long; 0: with each use in a vault only
  std::chrono::seconds timeout{10};                // of one fetch

  std::filesystem::path file;        // file
  std::vector<std::string> command;  // command: a program by its path, and its arguments
  std::string url;                   // vault-kv2: of the server; oauth2: of the token endpoint; https only
  std::filesystem::path ca_file;     // trusted instead of the system's roots
  std::string mount = "secret", path, field = "value", name_space;  // vault-kv2
  std::filesystem::path token_file;                                 // vault-kv2: the server's own token
  std::string client_id, scope, audience;                           // oauth2
  std::filesystem::path client_secret_file;                         // oauth2

  bool operator==(const CredentialEntry&) const = default;
};

struct CredentialsSection {
  std::vector<CredentialEntry> entries;

  bool operator==(const CredentialsSection&) const = default;
};

struct StorageSection {
  std::vector<std::string> allowed_host_paths;  // empty refuses all
  std::string volume_default_size = "1Gi";
  std::string ossfs_mount_root = "/mnt/ossfs";
};

struct StoreSection {
  std::string type = "sqlite";
  std::filesystem::path path = "~/.opensandbox/opensandbox.db";

  bool operator==(const StoreSection&) const = default;
};

struct SecureRuntimeSection {
  std::string type;               // "", gvisor, kata or firecracker
  std::string docker_runtime;     // effective: the given one, else the type's own
  std::string k8s_runtime_class;  // effective

  bool operator==(const SecureRuntimeSection&) const = default;
};

struct RenewIntentSection {
  bool enabled = false;
  std::chrono::seconds min_interval{60};
  struct Redis {
    bool enabled = false;
    std::string dsn;  // a secret: may hold a password
    std::string queue_key = "opensandbox:renew:intent";
    int consumer_concurrency = 8;

    bool operator==(const Redis&) const = default;
  } redis;
};

struct ServerConfig {
  std::filesystem::path source;  // the file it came from; empty when there was none
  ServerSection server;
  LogSection log;
  RuntimeSection runtime;
  NativeSection native;
  AdmissionSection admission;
  TemplatesSection templates;
  DockerSection docker;
  ProxySection proxy;
  KubernetesSection kubernetes;
  AgentSandboxSection agent_sandbox;
  IngressSection ingress;
  EgressSection egress;
  PoliciesSection policies;
  CredentialsSection credentials;
  StorageSection storage;
  StoreSection store;
  SecureRuntimeSection secure_runtime;
  RenewIntentSection renew_intent;
  std::vector<std::string> warnings;               // keys without the expected effect, with their places
  std::chrono::seconds pending_failure_ttl{3600};  // PENDING_FAILURE_TTL: how long ended sandboxes stay visible
};

// The environment, read in one place so that tests can replace it.
struct Environment {
  std::map<std::string, std::string> variables;
  static Environment of_this_process();
  const std::string* find(const std::string& name) const;
  std::filesystem::path home() const;  // $HOME, else "/"
};

// The path: `flag` (--config), else SANDBOX_CONFIG_PATH, else ~/.sandbox.toml. A file that was named must exist; if the
// last one does not, the defaults apply: native on 127.0.0.1:8080. Unknown keys and sections are errors, or warnings
// with [server] unknown_keys = "warn". Errors name file, line, section and key, and never repeat a value that may be
// secret.
Result<ServerConfig> load_server_config(std::string_view flag, const Environment& environment);

// The same for a text; `source` is named in errors.
Result<ServerConfig> parse_server_config(std::string_view toml, const std::filesystem::path& source,
                                         const Environment& environment);

// "~" and "~/x" by $HOME.
std::filesystem::path expand_home(std::string_view path, const Environment& environment);

// The main settings on one line, for the log at start; secrets as ***.
std::string describe(const ServerConfig& config);

}  // namespace osb::config
