#include "config/init_config_texts.h"

namespace osb::config::texts {

const std::string_view kSkeleton = R"(# OpenSandbox server: every setting with its default. "" means not set.
# Environment: SANDBOX_CONFIG_PATH names this file, OPENSANDBOX_SERVER_API_KEY replaces [server] api_key.

[server]
# Address and port to listen on. 0.0.0.0 is every address of this machine.
host = "127.0.0.1"
port = 8080
# What clients must send as OPEN-SANDBOX-API-KEY. Without it the server starts only when told so.
api_key = ""
# Public host (or host/path) to put into endpoints, when it differs from what clients connect to.
eip = ""
# Clients that ignore the headers of an endpoint, by the beginning of their User-Agent: they get execd's token in the
# endpoint's path. The Java and Kotlin SDK 1.0.0 needs ["OpenSandbox-Kotlin-SDK/"].
headerless_clients = []
# Longest timeout a sandbox may ask for, in seconds.
max_sandbox_timeout_seconds = 86400
# Seconds an idle connection is kept.
timeout_keep_alive = 30
# Open connections beyond which new ones are answered 503; 0 is no limit.
limit_concurrency = 1024
# Connections the kernel may queue.
backlog = 2048
# Threads for blocking work.
thread_pool_size = 200

[log]
# DEBUG, INFO, WARNING or ERROR.
level = "INFO"
# text or json.
format = "text"
# Rotating files instead of standard output.
file_enabled = false
# Default: ~/logs/opensandbox/server.log and access.log.
file_path = ""
access_file_path = ""
# Who did what. Empty: with the log.
audit_file_path = ""
file_max_bytes = 104857600
file_backup_count = 5

[runtime]
# native (needs sandboxd on this host), docker or kubernetes.
type = "native"
# Image that holds execd; docker and kubernetes only.
execd_image = ""

[native]
# Where sandboxd listens.
socket = "/run/opensandbox/sandboxd.sock"
# Seconds to wait for an answer of sandboxd.
request_timeout = 30

[admission]
# Sandboxes that may exist at once; 0 is no limit. Beyond it creates are answered 429.
max_sandboxes = 0
# Creates handed to the backend at once, and how many may wait behind them.
max_concurrent_creates = 100
max_queued_creates = 1000

[docker]
# host, bridge, none or the name of a network.
network_mode = "bridge"
# Seconds to wait for an answer of the engine.
api_timeout = 180
# Address for endpoints when the server itself runs in a container.
host_ip = ""
# Capabilities taken from sandboxes.
drop_capabilities = ["AUDIT_WRITE", "MKNOD", "NET_ADMIN", "NET_RAW", "SYS_ADMIN", "SYS_MODULE", "SYS_PTRACE", "SYS_TIME", "SYS_TTY_CONFIG"]
# Empty: the engine's own profiles.
apparmor_profile = ""
seccomp_profile = ""
# No setuid inside.
no_new_privileges = true
# Processes per sandbox; 0 is no limit.
pids_limit = 4096

[egress]
# Image of the egress sidecar; needed for networkPolicy on docker and kubernetes.
image = ""
# dns, or dns+nft to enforce addresses too.
mode = "dns"
disable_ipv6 = true

# [kubernetes]
# Empty: the cluster this runs in.
# kubeconfig_path = ""
# namespace = "opensandbox"
# service_account = ""
# batchsandbox or agent-sandbox.
# workload_provider = "batchsandbox"
# batchsandbox_template_file = ""
# image_pull_policy = "IfNotPresent"
# sandbox_create_timeout_seconds = 60
# sandbox_create_poll_interval_seconds = 1.0
# snapshot_create_timeout_seconds = 900
# informer_enabled = true
# informer_resync_seconds = 300
# informer_watch_timeout_seconds = 60
# Requests per second to the API server; 0 is no limit.
# read_qps = 0
# read_burst = 0
# write_qps = 0
# write_burst = 0
# execd_init_resources.limits = { cpu = "100m", memory = "128Mi" }
# execd_init_resources.requests = { cpu = "50m", memory = "64Mi" }

# [agent_sandbox]
# template_file = ""
# Delete or Retain.
# shutdown_policy = "Delete"
# ingress_enabled = true

[ingress]
# direct, or gateway (kubernetes only).
mode = "direct"
# [ingress.gateway]
# address = "*.sandbox.example.com"
# [ingress.gateway.route]
# wildcard, header or uri.
# mode = "wildcard"
# Keys that sign routes; base64.
# [ingress.secure_access]
# active_key = "a"
# [[ingress.secure_access.keys]]
# key_id = "a"
# key = ""

[storage]
# Host paths that volumes may use, with everything below; empty refuses all.
allowed_host_paths = []
# Size of claims that are made automatically.
volume_default_size = "1Gi"
ossfs_mount_root = "/mnt/ossfs"

[store]
type = "sqlite"
path = "~/.opensandbox/opensandbox.db"

[secure_runtime]
# "", gvisor, kata or firecracker (kubernetes only).
type = ""
docker_runtime = ""
k8s_runtime_class = ""

[renew_intent]
# Accesses through the server's proxy extend sandboxes that asked for it.
enabled = false
# Seconds between two extensions of one sandbox.
min_interval_seconds = 60
# Accesses that an ingress reports through Redis.
redis.enabled = false
redis.dsn = ""
redis.queue_key = "opensandbox:renew:intent"
redis.consumer_concurrency = 8
)";

const std::string_view kNative =
    R"(# OpenSandbox server on one Linux host, sandboxes by sandboxd: no Docker, no cluster.

[server]
host = "127.0.0.1"
port = 8080
# api_key = "change-me"  # or OPENSANDBOX_SERVER_API_KEY
max_sandbox_timeout_seconds = 86400

[log]
level = "INFO"

[runtime]
type = "native"

[native]
socket = "/run/opensandbox/sandboxd.sock"

[storage]
# Empty refuses every host path.
allowed_host_paths = []

[store]
type = "sqlite"
path = "~/.opensandbox/opensandbox.db"
)";

const std::string_view kDocker = R"(# OpenSandbox server on one host, sandboxes as Docker containers.

[server]
host = "127.0.0.1"
port = 8080
# api_key = "change-me"  # or OPENSANDBOX_SERVER_API_KEY
max_sandbox_timeout_seconds = 86400

[log]
level = "INFO"

[runtime]
type = "docker"
execd_image = "opensandbox/execd:v1.0.19"

[egress]
image = "opensandbox/egress:v1.1.0"
mode = "dns"

[docker]
# host, bridge or the name of a network; networkPolicy needs bridge.
network_mode = "bridge"
# When the server itself runs in a container:
# host_ip = "host.docker.internal"
drop_capabilities = ["AUDIT_WRITE", "MKNOD", "NET_ADMIN", "NET_RAW", "SYS_ADMIN", "SYS_MODULE", "SYS_PTRACE", "SYS_TIME", "SYS_TTY_CONFIG"]
no_new_privileges = true
apparmor_profile = ""
seccomp_profile = ""
pids_limit = 4096

[ingress]
mode = "direct"

[storage]
# Empty refuses every host path.
allowed_host_paths = []

[store]
type = "sqlite"
path = "~/.opensandbox/opensandbox.db"

[renew_intent]
enabled = false
min_interval_seconds = 60
)";

const std::string_view kDockerZh = R"(# OpenSandbox 服务端：单机部署，沙箱以 Docker 容器运行。

[server]
# 监听地址与端口
host = "127.0.0.1"
port = 8080
# api_key = "change-me"  # 也可用环境变量 OPENSANDBOX_SERVER_API_KEY
# 沙箱最长存活时间（秒）
max_sandbox_timeout_seconds = 86400

[log]
level = "INFO"

[runtime]
type = "docker"
# 含有 execd 的镜像
execd_image = "opensandbox/execd:v1.0.19"

[egress]
# 使用 networkPolicy 时需要
image = "opensandbox/egress:v1.1.0"
mode = "dns"

[docker]
# host、bridge 或自定义网络名；networkPolicy 需要 bridge
network_mode = "bridge"
# 服务端自身运行在容器中时：
# host_ip = "host.docker.internal"
drop_capabilities = ["AUDIT_WRITE", "MKNOD", "NET_ADMIN", "NET_RAW", "SYS_ADMIN", "SYS_MODULE", "SYS_PTRACE", "SYS_TIME", "SYS_TTY_CONFIG"]
no_new_privileges = true
apparmor_profile = ""
seccomp_profile = ""
pids_limit = 4096

[ingress]
mode = "direct"

[storage]
# 允许挂载的宿主机路径；空列表表示全部拒绝
allowed_host_paths = []

[store]
type = "sqlite"
path = "~/.opensandbox/opensandbox.db"

[renew_intent]
# 访问时自动续期
enabled = false
min_interval_seconds = 60
)";

const std::string_view kKubernetes = R"(# OpenSandbox server on a Kubernetes cluster.

[server]
host = "0.0.0.0"
port = 8080
# api_key = "change-me"  # or OPENSANDBOX_SERVER_API_KEY
max_sandbox_timeout_seconds = 86400

[log]
level = "INFO"

[runtime]
type = "kubernetes"
execd_image = "opensandbox/execd:v1.0.19"

[egress]
image = "opensandbox/egress:v1.1.0"
mode = "dns"

[kubernetes]
# Leave out inside a cluster.
kubeconfig_path = "~/.kube/config"
namespace = "opensandbox"
# batchsandbox or agent-sandbox.
workload_provider = "batchsandbox"
batchsandbox_template_file = "~/batchsandbox-template.yaml"
image_pull_policy = "IfNotPresent"
snapshot_create_timeout_seconds = 900
informer_enabled = true
informer_resync_seconds = 300
informer_watch_timeout_seconds = 60

[ingress]
mode = "direct"

[storage]
# Empty refuses every host path.
allowed_host_paths = []
volume_default_size = "1Gi"

[store]
type = "sqlite"
path = "~/.opensandbox/opensandbox.db"
)";

const std::string_view kKubernetesZh = R"(# OpenSandbox 服务端：部署在 Kubernetes 集群上。

[server]
# 监听地址与端口
host = "0.0.0.0"
port = 8080
# api_key = "change-me"  # 也可用环境变量 OPENSANDBOX_SERVER_API_KEY
# 沙箱最长存活时间（秒）
max_sandbox_timeout_seconds = 86400

[log]
level = "INFO"

[runtime]
type = "kubernetes"
# 含有 execd 的镜像
execd_image = "opensandbox/execd:v1.0.19"

[egress]
image = "opensandbox/egress:v1.1.0"
mode = "dns"

[kubernetes]
# 在集群内运行时请删除
kubeconfig_path = "~/.kube/config"
namespace = "opensandbox"
# batchsandbox 或 agent-sandbox
workload_provider = "batchsandbox"
batchsandbox_template_file = "~/batchsandbox-template.yaml"
image_pull_policy = "IfNotPresent"
snapshot_create_timeout_seconds = 900
informer_enabled = true
informer_resync_seconds = 300
informer_watch_timeout_seconds = 60

[ingress]
mode = "direct"

[storage]
# 允许挂载的宿主机路径；空列表表示全部拒绝
allowed_host_paths = []
volume_default_size = "1Gi"

[store]
type = "sqlite"
path = "~/.opensandbox/opensandbox.db"
)";

}  // namespace osb::config::texts
