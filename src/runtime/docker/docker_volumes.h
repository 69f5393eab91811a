#pragma once

#include <string>
#include <vector>

#include "api/lifecycle_volume.h"
#include "async/blocking_pool.h"
#include "runtime/docker/engine_client.h"
#include "runtime/docker/mount_check.h"

namespace osb::runtime {

// Volumes of one sandbox on their way to becoming binds.
struct DockerVolumes {
  std::vector<std::string> binds;    // "source:target:ro|rw", in the order of the request
  std::vector<std::string> created;  // named volumes that were made for it: removed when its create fails
  std::vector<std::string> managed;  // of those, the ones to delete with it
  bool open_to_users = false;        // a host path is writable, and programs in it may be setuid on the host
  std::vector<PinnedMount> pinned;   // what of this machine's files the binds are to show
};

struct VolumeContext {
  std::string sandbox;
  EngineClient& engine;
  BlockingPool& pool;
  const std::vector<std::string>& allowed_host_paths;
  bool local = true;  // host paths are paths of this machine: real paths can be checked and directories made
};

// The checks that need no requests and no files.
Result<void> check_docker_volumes(const std::vector<api::Volume>& volumes);

// The checks that look at files and ask the engine; they change nothing. A volume may change before it is prepared, so
// the preparation checks again. References outlive the call.
net::awaitable<Result<void>> look_at_volumes(const VolumeContext& context, const std::vector<api::Volume>& volumes);

// Makes directories and named volumes as needed. `out` says what was done also when it fails. References outlive the
// call.
net::awaitable<Result<void>> prepare_volumes(const VolumeContext& context, const std::vector<api::Volume>& volumes,
                                             DockerVolumes& out);

// Removes the volumes with the label of a server; missing ones and those in use are skipped. Best effort.
net::awaitable<void> remove_managed_volumes(EngineClient& engine, std::vector<std::string> names);

}  // namespace osb::runtime
