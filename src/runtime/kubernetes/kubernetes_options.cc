#include "runtime/kubernetes/kubernetes_options.h"

#include "kubernetes/object.h"
#include "sys/text_file.h"
#include "tls/connector.h"
#include "yaml/reader.h"

namespace osb::runtime {

namespace json = boost::json;

namespace {

constexpr std::size_t kMaxTemplate = 1 << 20;

Result<kubernetes::ClusterConfig> find_cluster(const config::KubernetesSection& section,
                                               const config::Environment& environment) {
  if (!section.kubeconfig_path.empty()) {
    return kubernetes::load_kubeconfig(config::expand_home(section.kubeconfig_path, environment));
  }
  return kubernetes::in_cluster_config([&](std::string_view name) -> std::optional<std::string> {
    const std::string* value = environment.find(std::string(name));
    return value == nullptr ? std::nullopt : std::optional(*value);
  });
}

}  // namespace

Result<json::object> parse_workload(const std::string& text, WorkloadProvider provider) {
  const auto value = yaml::parse(text);
  if (!value) return Failure(value.error());
  const json::object* workload = value->if_object();
  if (workload == nullptr)
    return fail(Code::InvalidRequest, "expected a mapping, with the pod's template as in the workload");
  const std::string_view pod = provider == WorkloadProvider::AgentSandbox ? "podTemplate" : "template";
  const json::value* place = nullptr;
  json::object copy = *workload;
  for (const auto& path : std::initializer_list<std::initializer_list<std::string_view>>{
           {"metadata"}, {"spec"}, {"spec", pod}, {"spec", pod, "metadata"}, {"spec", pod, "spec"}}) {
    place = kubernetes::find(copy, path);
    if (place == nullptr || place->is_object()) continue;
    std::string name;
    for (const std::string_view step : path) name += (name.empty() ? "" : ".") + std::string(step);
    return fail(Code::InvalidRequest, name + ": expected a mapping");
  }
  return copy;
}

Result<KubernetesOptions> kubernetes_options(const config::ServerConfig& config,
                                             const config::Environment& environment) {
  KubernetesOptions out;
  const config::KubernetesSection& section = config.kubernetes;
  const bool agent = section.workload_provider == "agent-sandbox";
  if (agent) out.provider = WorkloadProvider::AgentSandbox;
  out.signed_routes = config.ingress.gateway && !config.ingress.keys.empty();
  auto cluster = find_cluster(section, environment);
  if (!cluster) return with_context("[kubernetes] kubeconfig_path", cluster.error());
  out.cluster = std::move(*cluster);
  out.ns = section.name_space.empty() ? out.cluster.ns : section.name_space;
  out.client.read_qps = section.read_qps;
  out.client.read_burst = section.read_burst;
  out.client.write_qps = section.write_qps;
  out.client.write_burst = section.write_burst;
  out.client.user_agent = "opensandbox-server";
  const std::string& template_file = agent ? config.agent_sandbox.template_file : section.batchsandbox_template_file;
  if (!template_file.empty()) {
    const std::filesystem::path file = config::expand_home(template_file, environment);
    const auto text = sys::read_text(file.string(), kMaxTemplate);
    auto workload = text ? parse_workload(*text, out.provider) : Result<json::object>(Failure(text.error()));
    if (!workload) {
      return with_context(agent ? "[agent_sandbox] template_file" : "[kubernetes] batchsandbox_template_file",
                          workload.error());
    }
    out.workload = std::move(*workload);
  }
  out.shutdown_policy = config.agent_sandbox.shutdown_policy;
  out.egress = config.egress;
  out.own_network_stack = !config.secure_runtime.type.empty();
  out.execd_image = config.runtime.execd_image;
  out.execd_run_as_init = config.runtime.execd_run_as_init;
  out.image_pull_policy = section.image_pull_policy;
  out.runtime_class = config.secure_runtime.type.empty() ? "" : config.secure_runtime.k8s_runtime_class;
  out.volume_default_size = config.storage.volume_default_size;
  out.execd_init_limits = section.execd_init_limits;
  out.execd_init_requests = section.execd_init_requests;
  out.create_timeout = section.sandbox_create_timeout;
  out.pool_timeout = section.pool_acquisition_timeout;
  out.watch_time = section.informer_watch_timeout;
  out.connector = [](net::any_io_executor executor) { return tls::make_connector(executor); };
  return out;
}

}  // namespace osb::runtime
