#pragma once

#include "kubernetes/client.h"
#include "runtime/kubernetes/cluster_sandboxes.h"
#include "runtime/logs.h"

namespace osb::runtime {

// Output of entrypoints, from the kubelets, which keep it with times. Its arguments outlive it.
class KubernetesLogs final : public Logs {
 public:
  KubernetesLogs(kubernetes::Client& client, ClusterSandboxes& sandboxes) : client_(client), sandboxes_(sandboxes) {}

  net::awaitable<Result<std::string>> tail(std::string id, std::size_t bytes) override;
  net::awaitable<Result<std::unique_ptr<LogStream>>> open(std::string id, LogsFrom from) override;

 private:
  Result<kubernetes::Key> pod_of(const std::string& id) const;

  kubernetes::Client& client_;
  ClusterSandboxes& sandboxes_;
};

}  // namespace osb::runtime
