#include "runtime/kubernetes/kubernetes_backend.h"

#include "api/lifecycle_error.h"
#include "kubernetes/api_status.h"
#include "runtime/kubernetes/manifest.h"

namespace osb::runtime {
namespace {

Capabilities kubernetes_capabilities() {
  Capabilities out;
  out.backend = "KUBERNETES";
  out.daemon = "the cluster's API server";
  out.kubernetes_quantities = true;
  out.no_pause = kNoPause;
  out.ids_from_keys = true;
  out.removals_are_shared = true;
  out.no_network_policy = "the kubernetes backend has no network policies yet";
  out.no_credential_proxy = "the kubernetes backend has no credential proxy yet";
  out.no_secure_access = "the kubernetes backend has no gateway yet";
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
  const auto listed = co_await (*client)->list(kBatchSandboxes, options.ns, {.limit = 1});
  if (!listed && kubernetes::is_not_found(listed.error())) {
    co_return unusable("the cluster does not know " + kBatchSandboxes.to_string() + ": install the controller's CRDs");
  }
  if (!listed) co_return unusable(listed.error().message);
  co_return std::unique_ptr<KubernetesBackend>(new KubernetesBackend(executor, std::move(options), std::move(*client)));
}

KubernetesBackend::KubernetesBackend(net::any_io_executor executor, KubernetesOptions options,
                                     std::unique_ptr<kubernetes::Client> client)
    : executor_(executor),
      options_(std::move(options)),
      capabilities_(kubernetes_capabilities()),
      client_(std::move(client)),
      tasks_(executor),
      sandboxes_(executor, *client_, options_, tasks_),
      lifecycle_(executor, *client_, options_, sandboxes_),
      logs_(*client_, sandboxes_) {}

}  // namespace osb::runtime
