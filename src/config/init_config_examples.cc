#include "config/init_config_examples.h"

#include <algorithm>
#include <array>
#include <span>
#include <stdexcept>
#include <vector>

#include "config/settings.h"

namespace osb::config {
namespace {

struct Choice {
  std::string_view section, key;
  std::string_view value = "";  // as TOML; empty: the one of the table
  bool commented = false;       // the user has to decide
};

constexpr Choice kNative[] = {
    {"server", "host"},
    {"server", "port"},
    {"server", "api_key", "\"change-me\"", true},
    {"server", "max_sandbox_timeout_seconds"},
    {"log", "level"},
    {"runtime", "type", "\"native\""},
    {"native", "socket"},
    {"storage", "allowed_host_paths"},
    {"store", "path"},
};

constexpr Choice kDocker[] = {
    {"server", "host"},
    {"server", "port"},
    {"server", "api_key", "\"change-me\"", true},
    {"server", "max_sandbox_timeout_seconds"},
    {"log", "level"},
    {"runtime", "type", "\"docker\""},
    {"runtime", "execd_image", "\"opensandbox/execd:v1.0.19\""},
    {"docker", "network_mode", "\"bridge\""},
    {"docker", "host_ip", "\"host.docker.internal\"", true},
    {"docker", "drop_capabilities"},
    {"docker", "no_new_privileges"},
    {"docker", "apparmor_profile"},
    {"docker", "seccomp_profile"},
    {"docker", "pids_limit"},
    {"egress", "image", "\"opensandbox/egress:v1.1.0\""},
    {"egress", "mode"},
    {"ingress", "mode", "\"direct\""},
    {"storage", "allowed_host_paths"},
    {"store", "path"},
    {"renew_intent", "enabled"},
    {"renew_intent", "min_interval_seconds"},
};

// For images that `make images` has built.
constexpr Choice kDockerDeploy[] = {
    {"server", "host"},
    {"server", "port"},
    {"server", "max_sandbox_timeout_seconds"},
    {"runtime", "type", "\"docker\""},
    {"runtime", "execd_image", "\"opensandbox/execd:" OSB_VERSION "\""},
    {"docker", "network_mode", "\"bridge\""},
    {"storage", "allowed_host_paths"},
};

constexpr Choice kKubernetes[] = {
    {"server", "host", "\"0.0.0.0\""},
    {"server", "port"},
    {"server", "api_key", "\"change-me\"", true},
    {"server", "max_sandbox_timeout_seconds"},
    {"log", "level"},
    {"runtime", "type", "\"kubernetes\""},
    {"runtime", "execd_image", "\"opensandbox/execd:v1.0.19\""},
    {"egress", "image", "\"opensandbox/egress:v1.1.0\""},
    {"egress", "mode"},
    {"kubernetes", "kubeconfig_path", "\"~/.kube/config\""},
    {"kubernetes", "namespace", "\"opensandbox\""},
    {"kubernetes", "workload_provider", "\"batchsandbox\""},
    {"kubernetes", "batchsandbox_template_file", "\"~/batchsandbox-template.yaml\""},
    {"kubernetes", "image_pull_policy", "\"IfNotPresent\""},
    {"ingress", "mode", "\"direct\""},
    {"storage", "allowed_host_paths"},
    {"storage", "volume_default_size", "\"1Gi\""},
    {"store", "path"},
};

struct Translation {
  std::string_view section, key, about;
};

constexpr Translation kChinese[] = {
    {"server", "host", "监听地址"},
    {"server", "port", "监听端口"},
    {"server", "api_key", "也可用环境变量 OPENSANDBOX_SERVER_API_KEY"},
    {"server", "max_sandbox_timeout_seconds", "沙箱最长存活时间（秒）"},
    {"runtime", "execd_image", "含有 execd 的镜像"},
    {"egress", "image", "使用 networkPolicy 时需要"},
    {"docker", "network_mode", "host、bridge 或自定义网络名；networkPolicy 需要 bridge"},
    {"docker", "host_ip", "服务端自身运行在容器中时"},
    {"kubernetes", "kubeconfig_path", "在集群内运行时请删除"},
    {"kubernetes", "workload_provider", "batchsandbox 或 agent-sandbox"},
    {"storage", "allowed_host_paths", "允许挂载的宿主机路径；空列表表示全部拒绝"},
    {"renew_intent", "enabled", "访问时自动续期"},
};

struct Example {
  std::string_view name, head;
  std::span<const Choice> choices;
  bool chinese = false;
};

constexpr Example kExamples[] = {
    {"native", "OpenSandbox server on one Linux host, sandboxes by sandboxd: no Docker, no cluster.", kNative},
    {"docker", "OpenSandbox server on one host, sandboxes as Docker containers.", kDocker},
    {"docker-zh", "OpenSandbox 服务端：单机部署，沙箱以 Docker 容器运行。", kDocker, true},
    {"docker-deploy",
     "OpenSandbox server with sandboxes as Docker containers, on the machine that runs the engine, and images of `make "
     "images`. See docs/docker.md. `scripts/settings` makes this file.",
     kDockerDeploy},
    {"k8s", "OpenSandbox server on a Kubernetes cluster.", kKubernetes},
    {"k8s-zh", "OpenSandbox 服务端：部署在 Kubernetes 集群上。", kKubernetes, true},
};

template <typename Row>
auto find(const Row& rows, const SettingText& setting) {
  return std::ranges::find_if(
      rows, [&](const auto& row) { return row.section == setting.section && row.key == setting.key; });
}

}  // namespace

std::string make_example(std::string_view name) {
  const auto* example = std::ranges::find(kExamples, name, &Example::name);
  if (example == std::end(kExamples)) return "";
  std::vector<SettingText> chosen;
  for (SettingText& setting : server_settings()) {
    const auto choice = find(example->choices, setting);
    if (choice == example->choices.end()) continue;
    if (!choice->value.empty()) setting.written = choice->value;
    setting.commented = choice->commented;
    if (example->chinese) {
      const auto* translation = find(kChinese, setting);
      setting.about = translation == std::end(kChinese) ? "" : translation->about;
    }
    chosen.push_back(std::move(setting));
  }
  if (chosen.size() != example->choices.size()) throw std::logic_error("an example names a key that is not declared");
  return example_file(example->head, chosen);
}

}  // namespace osb::config
