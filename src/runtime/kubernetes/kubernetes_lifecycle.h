#pragma once

#include <string>
#include <vector>

#include "http/client.h"
#include "kubernetes/client.h"
#include "runtime/kubernetes/cluster_sandboxes.h"
#include "runtime/kubernetes/kubernetes_options.h"
#include "runtime/lifecycle.h"

namespace osb::runtime {

inline constexpr const char* kNoPause = "the kubernetes backend does not pause sandboxes yet";

// Sandboxes as BatchSandbox objects, whose pods the controller makes. The objects hold everything, so that several
// servers can share a cluster. Its arguments outlive it.
class KubernetesLifecycle final : public Lifecycle {
 public:
  KubernetesLifecycle(net::any_io_executor executor, kubernetes::Client& client, const KubernetesOptions& options,
                      ClusterSandboxes& sandboxes);

  Result<void> check(const api::CreateSandbox& create) const override;
  net::awaitable<Result<Instance>> create(SandboxSpec spec) override;
  net::awaitable<Result<Instance>> inspect(std::string id) override;
  net::awaitable<Result<std::vector<Instance>>> list() override;
  net::awaitable<void> watch(Observer& observer) override { return sandboxes_.run(observer); }
  void look_again() override { sandboxes_.look_again(); }
  net::awaitable<Result<void>> pause(std::string id) override;
  net::awaitable<Result<void>> resume(std::string id) override;
  net::awaitable<Result<void>> remove(std::string id) override;
  net::awaitable<Result<void>> set_deadline(std::string id, Timestamp until) override;
  net::awaitable<Result<void>> patch_metadata(std::string id, api::MetadataPatch patch) override;
  net::awaitable<Result<ResourceUse>> stats(std::string id) override;

 private:
  using Creating = ClusterSandboxes::Creating;

  kubernetes::Ref ref(const std::string& id) const;
  // Each makes what it says; `creating` tells when the sandbox is not wanted any more.
  net::awaitable<Result<void>> make_claims(const SandboxSpec& spec, std::vector<std::string>& owned);
  net::awaitable<Result<boost::json::object>> make_workload(const SandboxSpec& spec, Creating& creating);
  net::awaitable<Result<void>> own(const boost::json::object& workload, const SandboxSpec& spec,
                                   const std::vector<std::string>& claims);
  net::awaitable<Result<Instance>> wait_ready(const SandboxSpec& spec, Creating& creating);
  net::awaitable<bool> ask_execd(const Instance& instance);
  net::awaitable<void> clean_up(std::string id);
  // Why the create has run out of time, as far as the cluster tells.
  net::awaitable<Error> late(std::string id);

  kubernetes::Client& client_;
  const KubernetesOptions& options_;
  ClusterSandboxes& sandboxes_;
  http::Client execd_;
};

}  // namespace osb::runtime
