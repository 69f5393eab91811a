#pragma once

#include <chrono>
#include <mutex>
#include <string>
#include <sys/types.h>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "kernel/process_exit.h"
#include "sandboxd/launch/launch_plan.h"

namespace osb::sandboxd {

// A program that starts containers from OCI bundles, as configured: `[runtimes] runsc = "/usr/bin/runsc"`.
struct OciProgram {
  std::string path;                         // absolute
  std::vector<std::string> arguments = {};  // before the command: "--platform=kvm"
};

// Where execd finds itself and leaves its exit record, inside.
inline constexpr const char* kOciExecd = "/opt/opensandbox/execd";
inline constexpr const char* kOciExitDirectory = "/opt/opensandbox/exit";
// Of its three descriptors the first is the entrypoint's log, open for writing; the others are its own log.
inline constexpr const char* kOciEntrypointLog = "/proc/self/fd/0";

// The process of the runtime that ends when PID 1 of the sandbox has ended, with its exit code. No child of ours.
struct OciProcess {
  kernel::ProcessIdentity identity;
  UniqueFd pidfd;
};

// Starts sandboxes through an OCI runtime instead of our own launch.
//
// The runtime isolates the sandbox from the host: configure only runtimes that isolate (gVisor, virtual machines). Our
// seccomp program has no effect inside. sandboxd still provides: the root file system (same layers, same upper), the
// volumes, the network slot, and the cgroup, in which the runtime and all that it starts are born. So limits, usage,
// freezing and killing work as for any other sandbox, and the runtime is never asked for them.
//
// All calls block and may come from any thread, several at a time.
class OciRuntime {
 public:
  // `state_directory` is where the runtime keeps its own state, in a directory for each sandbox; 0700, exists.
  OciRuntime(std::string name, OciProgram program, std::string state_directory);

  struct Container {
    std::string id;
    std::string bundle;          // for config.json, pid and runtime.log; exists, root's alone
    std::string exit_directory;  // on the host, writable for the sandbox's user
    int execd = -1;              // the program, O_PATH
    int entrypoint_log = -1;
    int execd_log = -1;
    std::string cgroup_path;  // of the plan's cgroup, for runtimes that insist: "/opensandbox/<id>"
  };
  // Creates and starts; returns when PID 1 has been started, which is before it listens. After an error the caller
  // kills the cgroup and calls remove(). The runtime's messages are in the error and in runtime.log. The plan's
  // descriptors, seccomp program and program are not used.
  Result<OciProcess> launch(LaunchPlan plan, const Container& container);

  // After its processes have been killed: removes the runtime's own state of it. Unknown ids are fine.
  void remove(const std::string& id);

  const std::string& name() const { return name_; }

 private:
  struct Run {
    std::vector<std::string> command;  // "create", ..
    std::string id;
    std::string log;
    int in = -1;   // -1: /dev/null
    int out = -1;  // likewise
    const CgroupPlan* cgroup = nullptr;
    std::optional<int> oom_score_adj = {};
  };
  Result<void> run(const Run& what);
  Result<OciProcess> create_and_start(LaunchPlan& plan, const Container& container, int root);
  const std::vector<std::string>& own_arguments();

  const std::string name_;
  const OciProgram program_;
  const std::string state_directory_;
  const bool gvisor_;
  std::once_flag asked_;
  std::vector<std::string> own_arguments_;
};

}  // namespace osb::sandboxd
