#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "async/blocking_pool.h"
#include "base/clock.h"
#include "base/time.h"
#include "base/unique_fd.h"
#include "sandboxd/launch/launch.h"
#include "sandboxd/network/firewall.h"
#include "sandboxd/network/slot_pool.h"
#include "sandboxd/policy/network_policies.h"
#include "sandboxd/sandbox/sandbox_cgroup.h"
#include "sandboxd/volume/volume_store.h"

namespace osb::sandboxd {

// The parts of the host that sandboxes take something of. They outlive everything that has a HostParts.
struct HostParts {
  Slots& slots;
  SlotRules& rules;
  SandboxCgroups& cgroups;
  Volumes& volumes;
  BlockingPool& pool;
  const Clock& clock = system_clock();
  std::function<Result<Launched>(LaunchPlan)> launch = &sandboxd::launch;
  NetworkPolicies* policies = nullptr;  // null: this host enforces none, and requests with one are refused
  // The certificate of the authority that opens connections of sandboxes with a credential proxy, in PEM.
  std::function<Result<std::string>()> authority = [] {
    return Result<std::string>(fail(Code::Unsupported, "this host intercepts no connections"));
  };

  Timestamp now() const { return std::chrono::floor<std::chrono::microseconds>(clock.now()); }
};

// Everything that a living or half-made sandbox holds of the host. Each part may be absent; Teardown::end() gives back
// what is there.
struct LiveSandbox {
  std::optional<Slot> slot;
  std::unique_ptr<SandboxCgroup> cgroup;
  UniqueFd pidfd;
  UniqueFd log_watch;                    // inotify of execd.log, where execd cannot be handed a listening socket
  std::shared_ptr<void> volumes;         // keeps named volumes from being removed
  std::vector<std::string> new_volumes;  // made for this sandbox: they go if its create fails
};

}  // namespace osb::sandboxd
