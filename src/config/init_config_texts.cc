#include "config/init_config_texts.h"

namespace osb::config::texts {

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
