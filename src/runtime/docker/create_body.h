#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json/value.hpp>

#include "runtime/docker/docker_options.h"
#include "runtime/docker/execd_stage.h"
#include "runtime/lifecycle.h"

namespace osb::runtime {

// All decisions about a container, before it is made.
struct ContainerPlan {
  std::string image;
  std::vector<std::string> binds;               // "source:target:ro|rw"
  std::vector<FileMount> files;                 // execd and bootstrap.sh
  std::vector<std::string> managed_volumes;     // deleted with the sandbox
  std::uint16_t execd_port = 0, http_port = 0;  // of the engine's host; 0 on the host's own network
  std::string seccomp;                          // inline JSON, or "unconfined"; "" is the engine's
};

// Every label of the container; "" hides one that a snapshot's image brings along.
api::StringMap container_labels(const SandboxSpec& spec, const ContainerPlan& plan);

// The body of POST /containers/create.
boost::json::value create_body(const SandboxSpec& spec, const ContainerPlan& plan, const DockerOptions& options);

struct Limits {
  std::uint64_t memory = 0;    // bytes; 0 is no limit
  std::int64_t nano_cpus = 0;  // 0 is no limit
  int gpus = 0;                // -1 is all
};
Result<Limits> read_limits(const std::optional<api::StringMap>& wanted);

}  // namespace osb::runtime
