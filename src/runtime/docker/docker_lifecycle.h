#pragma once

#include <string>
#include <vector>

#include "runtime/docker/containers.h"
#include "runtime/docker/docker_context.h"
#include "runtime/docker/docker_creates.h"
#include "runtime/docker/docker_network.h"
#include "runtime/docker/docker_watch.h"
#include "runtime/lifecycle.h"

namespace osb::runtime {

// Sandboxes as containers. Its arguments outlive it.
class DockerLifecycle final : public Lifecycle {
 public:
  DockerLifecycle(DockerContext& context, Containers& containers, DockerCreates& creates, DockerWatch& watch,
                  DockerNetwork& network, Sidecars& sidecars)
      : context_(context),
        containers_(containers),
        creates_(creates),
        watch_(watch),
        network_(network),
        sidecars_(sidecars) {}

  Result<void> check(const api::CreateSandbox& create) const override;
  net::awaitable<Result<void>> check_volumes(const api::CreateSandbox& create) override;
  net::awaitable<Result<Instance>> create(SandboxSpec spec) override { return creates_.create(std::move(spec)); }
  net::awaitable<Result<Instance>> inspect(std::string id) override;
  net::awaitable<Result<std::vector<Instance>>> list() override;
  net::awaitable<void> watch(Observer& observer) override { return watch_.run(observer); }
  void look_again() override { watch_.look_again(); }
  net::awaitable<Result<void>> pause(std::string id) override { return set_paused(std::move(id), true); }
  net::awaitable<Result<void>> resume(std::string id) override { return set_paused(std::move(id), false); }
  net::awaitable<Result<void>> remove(std::string id) override;
  net::awaitable<Result<ResourceUse>> stats(std::string id) override;

 private:
  net::awaitable<Result<void>> set_paused(std::string id, bool paused);
  // The container alone.
  net::awaitable<Result<void>> freeze(std::string id, bool paused);
  net::awaitable<bool> has_policy(std::string id);
  net::awaitable<std::vector<std::string>> volumes_to_remove(std::string id);

  DockerContext& context_;
  Containers& containers_;
  DockerCreates& creates_;
  DockerWatch& watch_;
  DockerNetwork& network_;
  Sidecars& sidecars_;
};

}  // namespace osb::runtime
