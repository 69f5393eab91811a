#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/unique_fd.h"
#include "sandboxd/oci/oci_runtime.h"
#include "sandboxd/sandbox/host_parts.h"
#include "sandboxd/sandbox/sandbox_config.h"
#include "sandboxd/sandbox/sandbox_plan.h"
#include "sandboxd/sandbox/sandbox_record.h"

namespace osb::sandboxd {

class Reservation;

// Starts execd in a reserved sandbox, by our own launch or through an OCI runtime. Blocks; any thread.
class SandboxLauncher {
 public:
  // `config` and `parts` outlive it.
  static Result<SandboxLauncher> open(const SandboxConfig& config, const HostParts& parts);

  // The meaning of a request's runtime. Code::InvalidRequest names the runtimes of this host.
  struct Runtime {
    std::string oci;           // "" is our own launch
    std::string native_class;  // of that; "" is the plain one
  };
  Result<Runtime> resolve_runtime(const std::string& name) const;

  // Fills in the record's process, pid, socket and start time. The process is the reservation's.
  Result<void> start(Reservation& taken, const SandboxPlan& plan, SandboxRecord& record) const;

  // After the sandbox's processes have ended: removes what an OCI runtime remembers of it.
  void remove_from_runtime(const SandboxRecord& record) const;

 private:
  SandboxLauncher(const SandboxConfig& config, const HostParts& parts) : config_(&config), parts_(&parts) {}
  Result<UniqueFd> listen(const std::string& id) const;
  Result<void> start_native(Reservation& taken, const SandboxPlan& plan, SandboxRecord& record,
                            LaunchPlan launch) const;
  Result<void> start_with_runtime(Reservation& taken, const SandboxPlan& plan, SandboxRecord& record,
                                  LaunchPlan launch) const;

  const SandboxConfig* config_;
  const HostParts* parts_;
  UniqueFd execd_;
  std::map<std::string, std::unique_ptr<OciRuntime>> runtimes_;
};

}  // namespace osb::sandboxd
