#pragma once

#include <string>
#include <vector>

#include "sandboxd/sandbox/host_parts.h"
#include "sandboxd/sandbox/sandbox_config.h"
#include "sandboxd/sandbox/sandbox_launcher.h"
#include "sandboxd/sandbox/sandbox_record.h"

namespace osb::sandboxd {

// Takes sandboxes apart: living ones, half-made ones, and the rest of those that a crash ended. All calls block, may
// come from any thread, several at a time for different sandboxes, and never fail: Teardown logs what resists, and the
// next start's sweep() finds it again.
class Teardown {
 public:
  Teardown(const SandboxConfig& config, const HostParts& parts, const SandboxLauncher& launcher)
      : config_(config), parts_(parts), launcher_(launcher) {}

  // Ends all processes and gives back everything that `live` holds. The directory stays, for its logs.
  void end(SandboxRecord& record, LiveSandbox live) const;
  // Removes the socket, the volumes that go with the sandbox, and the directory. Returns when the directory is in the
  // trash; empty_trash() deletes its files.
  void erase(const SandboxRecord& record) const;
  void empty_trash() const;

  // At start: ends and removes cgroups, sockets and runtime state that none of `living` owns.
  void sweep(const std::vector<std::string>& living) const;
  // The same for the cgroup of one sandbox without an owner.
  void sweep_cgroup(const std::string& id) const;

 private:
  const SandboxConfig& config_;
  const HostParts& parts_;
  const SandboxLauncher& launcher_;
};

}  // namespace osb::sandboxd
