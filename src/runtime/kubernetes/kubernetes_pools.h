#pragma once

#include "kubernetes/client.h"
#include "runtime/kubernetes/kubernetes_options.h"
#include "runtime/pools.h"

namespace osb::runtime {

// Pool objects of the sandboxes' namespace, which the controller fills. Its arguments outlive it.
class KubernetesPools final : public Pools {
 public:
  KubernetesPools(kubernetes::Client& client, const KubernetesOptions& options) : client_(client), options_(options) {}

  net::awaitable<Result<api::Pool>> create(api::CreatePool pool) override;
  net::awaitable<Result<std::vector<api::Pool>>> list() override;
  net::awaitable<Result<api::Pool>> get(std::string name) override;
  net::awaitable<Result<api::Pool>> resize(std::string name, api::PoolCapacity capacity) override;
  net::awaitable<Result<void>> remove(std::string name) override;

 private:
  kubernetes::Ref ref(const std::string& name) const;

  kubernetes::Client& client_;
  const KubernetesOptions& options_;
};

}  // namespace osb::runtime
