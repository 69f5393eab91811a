#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json/value.hpp>

#include "runtime/docker/container_limits.h"
#include "runtime/docker/docker_options.h"
#include "runtime/docker/execd_volume.h"
#include "runtime/lifecycle.h"

namespace osb::runtime {

// All decisions about a container, before it is made.
struct ContainerPlan {
  std::string image;
  std::string network;                       // the engine's name of it
  std::vector<std::string> binds;            // "source:target:ro|rw"
  std::vector<FileMount> files;              // execd and bootstrap.sh
  std::vector<std::string> managed_volumes;  // deleted with the sandbox
  // Of the engine's host; 0 is not published.
  std::uint16_t execd_port = 0, http_port = 0, egress_port = 0;
  bool has_policy = false;    // its first program waits until a sidecar enforces the policy in its network
  bool without_ipv6 = false;  // with a policy only
  std::string authority;      // certificate (PEM) that its programs trust; "" without a credential proxy
  // Root inside is root of the host for a writable directory that users of the host reach: no file may get a setuid or
  // setgid bit or a capability.
  bool no_set_id_files = false;
  std::string seccomp;  // inline JSON, or "unconfined"; "" is the engine's
  ContainerLimits limits;
};

// Every label of the container; "" hides one that a snapshot's image brings along.
api::StringMap container_labels(const SandboxSpec& spec, const ContainerPlan& plan);

// The body of POST /containers/create.
boost::json::value create_body(const SandboxSpec& spec, const ContainerPlan& plan, const DockerOptions& options);

}  // namespace osb::runtime
