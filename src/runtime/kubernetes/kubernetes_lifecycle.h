#pragma once

#include <string>
#include <vector>

#include "http/client.h"
#include "kubernetes/client.h"
#include "runtime/kubernetes/cluster_sandboxes.h"
#include "runtime/kubernetes/kubernetes_options.h"
#include "runtime/kubernetes/kubernetes_snapshots.h"
#include "runtime/lifecycle.h"

namespace osb::runtime {

inline constexpr const char* kNoIdlePolicy =
    "a cluster takes minutes to pause a sandbox: the kubernetes backend does not pause by itself";

// Sandboxes as workload objects, whose pods a controller makes. The objects hold everything, so that several servers
// can share a cluster. Its arguments outlive it; `snapshots` is null where the provider has none.
class KubernetesLifecycle final : public Lifecycle {
 public:
  KubernetesLifecycle(net::any_io_executor executor, kubernetes::Client& client, const KubernetesOptions& options,
                      ClusterSandboxes& sandboxes, KubernetesSnapshots* snapshots);

  Result<void> check(const api::CreateSandbox& create) const override;
  net::awaitable<Result<Instance>> create(SandboxSpec spec) override;
  net::awaitable<Result<Instance>> inspect(std::string id) override;
  net::awaitable<Result<std::vector<Instance>>> list() override;
  net::awaitable<void> watch(Observer& observer) override;
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
  net::awaitable<Result<boost::json::object>> plan(const SandboxSpec& spec);
  net::awaitable<Result<boost::json::object>> make_workload(const SandboxSpec& spec, Creating& creating);
  net::awaitable<Result<void>> own(const boost::json::object& workload, const SandboxSpec& spec,
                                   const std::vector<std::string>& claims);
  net::awaitable<Result<void>> check_pool(std::string name);
  net::awaitable<Result<void>> set_paused(std::string id, bool paused);
  // Changes the object of a sandbox that exists.
  net::awaitable<Result<void>> change(std::string id, boost::json::object patch);
  net::awaitable<Result<Instance>> wait_ready(const SandboxSpec& spec, Creating& creating);
  net::awaitable<bool> ask_execd(const Instance& instance);
  net::awaitable<void> clean_up(std::string id);
  // Why the create has run out of time, as far as the cluster tells.
  net::awaitable<Error> late(std::string id);

  kubernetes::Client& client_;
  const KubernetesOptions& options_;
  ClusterSandboxes& sandboxes_;
  KubernetesSnapshots* const snapshots_;
  http::Client execd_;
};

}  // namespace osb::runtime
