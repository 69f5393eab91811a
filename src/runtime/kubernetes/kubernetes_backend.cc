#include "runtime/kubernetes/kubernetes_backend.h"

#include "api/lifecycle_error.h"
#include "kubernetes/api_status.h"
#include "runtime/kubernetes/manifest.h"

namespace osb::runtime {
namespace {

// The project's own, which knows pools and snapshots.
bool has_controller(const KubernetesOptions& options) { return options.provider == WorkloadProvider::BatchSandbox; }

Capabilities kubernetes_capabilities(const KubernetesOptions& options) {
  Capabilities out;
  out.backend = "KUBERNETES";
  out.daemon = "the cluster's API server";
  out.kubernetes_quantities = true;
  out.pools = has_controller(options);
  out.no_idle_policy = kNoIdlePolicy;
  out.open_networks = "a NetworkPolicy of the cluster, or a networkPolicy of the create, closes them";
  out.ids_from_keys = true;
  out.removals_are_shared = true;
  out.signed_routes = options.signed_routes;
  if (options.egress.image.empty()) {
    out.no_network_policy = "[egress] image is not set; `make images` builds one";
  } else if (options.own_network_stack) {
    out.no_network_policy =
        "sandboxes of the runtime class " + options.runtime_class +
        " have a network stack of their own, which the sidecar cannot govern; use a cluster's NetworkPolicy";
  }
  out.no_credential_proxy = "the kubernetes backend has no credential proxy yet";
  out.no_windows = "the kubernetes backend runs linux only";
  return out;
}

Failure unusable(const std::string& why) {
  return api::refuse(Code::Unavailable, "KUBERNETES::INITIALIZATION_ERROR", why);
}

}  // namespace

net::awaitable<Result<std::unique_ptr<KubernetesBackend>>> KubernetesBackend::connect(net::any_io_executor executor,
                                                                                      KubernetesOptions options) {
  auto client = kubernetes::Client::open(executor, options.cluster, options.client);
  if (!client) co_return unusable(client.error().message);
  if (!options.runtime_class.empty()) {
    const auto found = co_await (*client)->get({kubernetes::resources::kRuntimeClasses, {"", options.runtime_class}});
    if (!found) co_return unusable("RuntimeClass " + options.runtime_class + ": " + found.error().message);
  }
  const kubernetes::Resource& resource = workload_resource(options);
  const auto listed = co_await (*client)->list(resource, options.ns, {.limit = 1});
  if (!listed && kubernetes::is_not_found(listed.error())) {
    co_return unusable("the cluster does not know " + resource.to_string() + ": install the controller's CRDs");
  }
  if (!listed) co_return unusable(listed.error().message);
  co_return std::unique_ptr<KubernetesBackend>(new KubernetesBackend(executor, std::move(options), std::move(*client)));
}

KubernetesBackend::KubernetesBackend(net::any_io_executor executor, KubernetesOptions options,
                                     std::unique_ptr<kubernetes::Client> client)
    : executor_(executor),
      options_(std::move(options)),
      capabilities_(kubernetes_capabilities(options_)),
      client_(std::move(client)),
      tasks_(executor),
      sandboxes_(executor, *client_, options_, tasks_),
      snapshots_(has_controller(options_)
                     ? std::optional<KubernetesSnapshots>(std::in_place, executor, *client_, options_, tasks_)
                     : std::nullopt),
      pools_(has_controller(options_) ? std::optional<KubernetesPools>(std::in_place, *client_, options_)
                                      : std::nullopt),
      lifecycle_(executor, *client_, options_, sandboxes_, snapshots()),
      logs_(*client_, sandboxes_) {}

}  // namespace osb::runtime
