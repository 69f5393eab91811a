// The server's keys: [kubernetes], [agent_sandbox], [ingress] and [secure_runtime].

#include <algorithm>

#include "base/text.h"
#include "config/settings.h"

namespace osb::config {
namespace {

using enum Reload;

// Lower case; empty is the default.
void fix_provider(std::string& text) { text = text.empty() ? KubernetesSection().workload_provider : lower(text); }

void declare_kubernetes(Settings& s, KubernetesSection& c) {
  s.section("kubernetes", true, true);
  s.key("kubeconfig_path", c.kubeconfig_path, Restart, "Empty: the cluster that the server runs in.");
  s.key("namespace", c.name_space, Restart, "Namespace of the sandboxes.", {.written = "\"opensandbox\""});
  s.removed("service_account", "Removed: the template of the workload names it.");
  s.key("workload_provider", c.workload_provider, Restart, "`batchsandbox` or `agent-sandbox`.",
        {.choices = {"batchsandbox", "agent-sandbox"}, .fix = fix_provider});
  s.key("batchsandbox_template_file", c.batchsandbox_template_file, Restart, "Template of a workload.");
  s.key("image_pull_policy", c.image_pull_policy, Restart, "Pull policy of the sandboxes' images.");
  s.key("sandbox_create_timeout_seconds", c.sandbox_create_timeout, Restart, "Seconds until a create fails.");
  s.key("sandbox_create_poll_interval_seconds", c.sandbox_create_poll_interval, Restart,
        "Seconds between two questions about a create.", {.positive = true});
  s.key("pool_acquisition_timeout_seconds", c.pool_acquisition_timeout, Restart,
        "Seconds until a create fails to which a pool gives no pod.");
  s.removed("snapshot_create_timeout_seconds", "Removed: the controller limits the time of a snapshot.");
  s.removed("informer_enabled", "Removed: workloads are always watched.");
  s.key("informer_resync_seconds", c.informer_resync, Restart, "Seconds between two full lists.");
  s.key("informer_watch_timeout_seconds", c.informer_watch_timeout, Restart, "Seconds that one watch lasts.");
  s.key("read_qps", c.read_qps, Restart, "Reads per second from the API server; 0 is no limit.");
  s.key("read_burst", c.read_burst, Restart, "Reads at once; 0 follows the rate.");
  s.key("write_qps", c.write_qps, Restart, "Writes per second to the API server; 0 is no limit.");
  s.key("write_burst", c.write_burst, Restart, "Writes at once; 0 follows the rate.");

  declare_missing_kubernetes(s);

  s.section("kubernetes.execd_init_resources", true, true);
  s.key("limits", c.execd_init_limits, Restart, "Limits of the container that copies execd into a sandbox.",
        {.written = "{ cpu = \"100m\", memory = \"128Mi\" }"});
  s.key("requests", c.execd_init_requests, Restart, "Requests of the same container.",
        {.written = "{ cpu = \"50m\", memory = \"64Mi\" }"});
}

void declare_agent_sandbox(Settings& s, AgentSandboxSection& c) {
  s.section("agent_sandbox", true, true);
  s.key("template_file", c.template_file, Restart, "Template of a workload.");
  s.key("shutdown_policy", c.shutdown_policy, Restart, "`Delete` or `Retain`.", {.choices = {"Delete", "Retain"}});
  s.key("ingress_enabled", c.ingress_enabled, Restart, "Endpoints go through the ingress.");
}

void declare_ingress(Settings& s, IngressSection& c) {
  s.section("ingress", true);
  s.other("mode", "`direct`, or `gateway` (kubernetes only).", "\"direct\"");
  s.holds(c);
  s.section("ingress.gateway", true, true);
  s.other("address", "Address of the gateway.", "", "\"*.sandbox.example.com\"");
  s.section("ingress.gateway.route", true, true);
  s.other("mode", "`wildcard`, `header` or `uri`.", "", "\"wildcard\"");
  s.section("ingress.secure_access", true, true);
  s.other("active_key", "`key_id` of the key that signs new routes.", "", "\"a\"");
  s.other("keys", "Keys that sign routes; `key` is base64.", "", "[{ key_id = \"a\", key = \"\" }]");
}

void declare_secure_runtime(Settings& s, SecureRuntimeSection& c) {
  s.section("secure_runtime", true);
  s.other("type",
          "Empty, `gvisor`, `kata` or `firecracker` (kubernetes only). With `gvisor` and sandboxd, sandboxes run in "
          "`runsc`; a host without it fails the create.",
          "\"\"");
  s.holds(c);
  s.other("docker_runtime", "Name of the runtime in the engine. Empty: `runsc` or `kata-runtime`.", "\"\"");
  s.other("k8s_runtime_class", "Runtime class in the cluster. Empty: `gvisor` or `kata-qemu`.", "\"\"");
}

}  // namespace

void declare_cluster_settings(Settings& settings, ServerConfig& config) {
  declare_kubernetes(settings, config.kubernetes);
  declare_agent_sandbox(settings, config.agent_sandbox);
  declare_ingress(settings, config.ingress);
  declare_secure_runtime(settings, config.secure_runtime);
}

}  // namespace osb::config
