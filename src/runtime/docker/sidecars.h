#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/backoff.h"
#include "http/client.h"
#include "runtime/docker/docker_context.h"
#include "runtime/docker/images.h"
#include "runtime/docker/port_pool.h"
#include "runtime/docker/sidecar_body.h"

namespace osb::runtime {

// The containers that enforce the network policies of sandboxes. The sandbox's container owns the network, and its
// sidecar joins it; the sandbox's first process waits until the sidecar enforces the policy. So a sidecar can end
// without taking the network along: the kernel keeps the rules, and the same container is started again.
// docs/design/docker-sidecar.md says why.
class Sidecars {
 public:
  Sidecars(DockerContext& context, Images& images);

  // Why this server cannot enforce a policy; "" when it can. The same for every sandbox.
  const std::string& missing() const { return missing_; }
  // Whether the server has to publish the policy API to reach it.
  bool needs_port() const { return !context_.facts.reaches_addresses || !context_.options.resolve_internal; }

  // Whether sandboxes with a policy are made without IPv6.
  bool without_ipv6() const { return context_.options.egress.disable_ipv6 && has_ipv6_; }
  // Whether the engine refused to start a container because its kernel has no IPv6 to turn off. If so, the next
  // container is made without that setting.
  bool note_refusal(const Error& error);

  // Makes the sidecar of a container, which need not run yet. `authority`: see SidecarFiles.
  // DOCKER::SANDBOX_START_FAILED; remove() undoes it. Arguments outlive it.
  net::awaitable<Result<void>> make(const SandboxSpec& spec, std::string container, std::string authority,
                                    Interest interest);
  // Starts it; the sandbox's container runs, and `ports` lead to it. Returns when the policy is enforced. Arguments
  // outlive it.
  net::awaitable<Result<void>> start(const SandboxSpec& spec, const PortMap& ports, Interest interest);
  // Starts a sidecar that has ended, as long as `wanted`: the sandbox runs. With growing pauses if it ends again.
  net::awaitable<void> revive(std::string sandbox, std::function<bool()> wanted);

  // Resuming starts a sidecar that has ended. One that is missing is a failure: the sandbox has lost its names.
  net::awaitable<Result<void>> set_paused(std::string sandbox, bool paused);
  // A missing one is success.
  net::awaitable<void> remove(std::string sandbox);
  // Removes sidecars of sandboxes that are not in `living`. Young ones stay: their create may be under way, also in
  // another server. Returns the sandboxes of the others whose sidecar does not run.
  net::awaitable<std::vector<std::string>> sweep(std::vector<std::string> living);

 private:
  struct Revival {
    Backoff pause;
    std::chrono::steady_clock::time_point last;
    bool under_way = false;
  };

  net::awaitable<Result<void>> create(const SandboxSpec& spec, const SidecarPlan& plan);
  net::awaitable<Result<void>> put_files(const SandboxSpec& spec, std::string authority);
  net::awaitable<Result<void>> wait_healthy(const SandboxSpec& spec, const PortMap& ports, Interest& interest);
  net::awaitable<bool> ask(std::string origin, std::string token);
  net::awaitable<Error> ended(std::string sandbox);

  DockerContext& context_;
  Images& images_;
  http::Client client_;
  std::vector<std::string> resolvers_;
  const std::string missing_;
  bool has_ipv6_ = true;  // until the engine says that its kernel has none
  std::unordered_map<std::string, Revival> revivals_;
};

}  // namespace osb::runtime
