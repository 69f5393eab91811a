#pragma once

#include <set>
#include <string>

#include "api/lifecycle_create.h"
#include "async/blocking_pool.h"
#include "async/task_group.h"
#include "base/clock.h"
#include "config/ceilings.h"
#include "runtime/docker/docker_options.h"
#include "runtime/docker/engine_client.h"
#include "sys/disk_reserve.h"

namespace osb::runtime {

// The limits that an engine can enforce. A text says why not; "" means yes.
struct LimitFacts {
  config::Ceilings ceilings;           // derived from the engine's machine
  std::set<std::string> not_enforced;  // limits that the engine accepts and does not enforce
  std::string no_disk_limit;
  std::string no_io_limit;
  std::string io_device;      // of the disk with the engine's files: "/dev/sda"
  std::string cgroup_parent;  // of all containers; "" is the engine's own
};

// The engine's version and abilities, as it reported them when the server started.
struct EngineFacts {
  std::string name;  // "Docker 24.0.7, API 1.43", for the log
  bool podman = false;
  api::Platform platform;
  bool local = false;              // it is on this machine and sees the same files
  bool reaches_addresses = false;  // and its containers' addresses can be reached from here
  bool remaps_users = false;       // root in a container is nobody on the host (userns-remap)
  sys::DiskReserve reserve;        // of the engine's disk; none if that is not on this machine
  std::string default_runtime;     // "runc"
  std::string seccomp;             // inline JSON, or "unconfined"; "" is the engine's
  LimitFacts limits;
};

// Reaches the engine and checks that it can do what the options need. References outlive the call.
// DOCKER::INITIALIZATION_ERROR.
net::awaitable<Result<EngineFacts>> look_at_engine(EngineClient& engine, const DockerOptions& options);

// Shared by the parts of the Docker backend, which owns all of it.
struct DockerContext {
  net::any_io_executor executor;
  const DockerOptions& options;
  const EngineFacts& facts;
  EngineClient& engine;
  const Clock& clock;
  BlockingPool& pool;
  TaskGroup& tasks;
};

// "/containers/sandbox-ID" + rest, in the engine's API.
std::string container_path(const std::string& id, std::string_view rest = "");

}  // namespace osb::runtime
