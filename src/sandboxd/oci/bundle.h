#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "sandboxd/launch/launch_plan.h"

namespace osb::sandboxd {

// An OCI bundle made from the plan of a launch: config.json, and a mount namespace in which the root file system and
// all that is mounted in it have paths. Nothing of it is seen outside of that namespace, and all of it goes with the
// runtime's last process.

// Where the plan's `cgroup.stat_files` are seen inside, by their names.
inline constexpr const char* kOciCgroupDirectory = "/opt/opensandbox/cgroup";

// The plan's root as one detached mount (with /usr of the `host` image on it), ids mapped as for our own launch.
// Blocks; the calling thread stays where it is.
Result<UniqueFd> mount_bundle_root(const LaunchPlan& plan);

// Something of the runtime's mount namespace that the sandbox sees at `target`.
struct BundleBind {
  std::string source;
  std::string target;
  bool read_only = false;
};

struct Bundle {
  std::string root;               // path of the root file system
  std::vector<BundleBind> binds;  // parents before what lies below them
};

// Takes the calling thread, which must be one of its own that ends soon, into a mount namespace for the runtime:
// - everything of the plan is attached below one directory: `root`, the mounts, the files of /etc
// - /proc/sys/net is empty: gVisor of 2022 takes a network namespace of newer kernels for the host's if it finds more
//   there than it knows
// - there is a second /proc without anything mounted in it, because a process in a user namespace (the runtime's file
//   server) may mount its own only then
// Root of the plan's user namespace, which has no rights in our state directory, can reach every path. The working
// directory and mount points are made if they are missing; then the root becomes read-only if the plan says so.
// Consumes the plan's mounts; the descriptors stay the caller's.
Result<Bundle> enter_bundle_namespace(LaunchPlan& plan, int root);

// config.json. The ids of the root are mapped by a user namespace that the runtime makes: it cannot join one, being a
// program of many threads. `cgroups_path` is for runtimes that insist on moving their processes: where they are
// already. Code::Unsupported for device nodes.
Result<std::string> encode_bundle_config(const LaunchPlan& plan, const Bundle& bundle, const std::string& netns_path,
                                         const std::string& cgroups_path);

}  // namespace osb::sandboxd
