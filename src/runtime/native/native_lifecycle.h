#pragma once

#include <optional>
#include <string>

#include "async/timer.h"
#include "runtime/lifecycle.h"
#include "runtime/native/sandboxd_client.h"

namespace osb::runtime {

// Sandboxes of sandboxd, which outlives it.
class NativeLifecycle final : public Lifecycle {
 public:
  NativeLifecycle(SandboxdClient& daemon, std::string runtime) : daemon_(daemon), runtime_(std::move(runtime)) {}

  Result<void> check(const api::CreateSandbox& create) const override;
  net::awaitable<Result<Instance>> create(SandboxSpec spec) override;
  net::awaitable<Result<Instance>> inspect(std::string id) override;
  net::awaitable<Result<std::vector<Instance>>> list() override;
  net::awaitable<void> watch(Observer& observer) override;
  void look_again() override;
  net::awaitable<Result<void>> pause(std::string id) override;
  net::awaitable<Result<void>> resume(std::string id) override;
  net::awaitable<Result<void>> remove(std::string id) override;
  net::awaitable<Result<ResourceUse>> stats(std::string id) override;

 private:
  SandboxdClient& daemon_;
  const std::string runtime_;
  std::optional<Notifier> look_again_;  // while watch() runs
};

}  // namespace osb::runtime
