#pragma once

#include <memory>
#include <optional>
#include <string>

#include "runtime/backend.h"
#include "runtime/kubernetes/cluster_sandboxes.h"
#include "runtime/kubernetes/kubernetes_lifecycle.h"
#include "runtime/kubernetes/kubernetes_logs.h"
#include "runtime/kubernetes/kubernetes_options.h"
#include "runtime/kubernetes/kubernetes_pools.h"
#include "runtime/kubernetes/kubernetes_snapshots.h"

namespace osb::runtime {

// Sandboxes in a cluster: objects whose pods a controller makes. With agent-sandbox there are no pools and no
// snapshots.
class KubernetesBackend final : public Backend {
 public:
  // Reaches the API server and checks that it has what the options need. KUBERNETES::INITIALIZATION_ERROR.
  static net::awaitable<Result<std::unique_ptr<KubernetesBackend>>> connect(net::any_io_executor executor,
                                                                            KubernetesOptions options);

  net::awaitable<void> close() override { return tasks_.close(); }
  const Capabilities& capabilities() const override { return capabilities_; }
  KubernetesLifecycle& lifecycle() override { return lifecycle_; }
  std::unique_ptr<http::Connector> connector() override { return options_.connector(executor_); }
  KubernetesLogs* logs() override { return &logs_; }
  KubernetesSnapshots* snapshots() override { return snapshots_ ? &*snapshots_ : nullptr; }
  KubernetesPools* pools() override { return pools_ ? &*pools_ : nullptr; }

 private:
  KubernetesBackend(net::any_io_executor executor, KubernetesOptions options,
                    std::unique_ptr<kubernetes::Client> client);

  net::any_io_executor executor_;
  const KubernetesOptions options_;
  const Capabilities capabilities_;
  const std::unique_ptr<kubernetes::Client> client_;
  TaskGroup tasks_;
  ClusterSandboxes sandboxes_;
  std::optional<KubernetesSnapshots> snapshots_;
  std::optional<KubernetesPools> pools_;
  KubernetesLifecycle lifecycle_;
  KubernetesLogs logs_;
};

}  // namespace osb::runtime
