#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json/value.hpp>

#include "runtime/docker/docker_options.h"
#include "runtime/lifecycle.h"

namespace osb::runtime {

namespace label {
inline constexpr std::string_view kSidecarFor = "opensandbox.io/egress-sidecar-for";
}  // namespace label

// The sidecar of a sandbox is the container of this id, for container_path(): sandbox-egress-ID.
std::string sidecar_id(std::string_view sandbox);

// Files of a sidecar, in the volume that goes with its container and that nothing else mounts.
struct SidecarFiles {
  std::string authority = {};            // key and certificate (PEM) of this sandbox alone; "" intercepts nothing
  std::string extra_trust = {};          // certificates (PEM) of servers, besides the list of the image
  std::string proxy_authorization = {};  // [egress.upstream_proxy] authorization
};
// For PUT /containers/{id}/archive of the directory kSidecarState.
std::string sidecar_archive(const SidecarFiles& files);

// All decisions about the container that enforces a sandbox's network policy.
struct SidecarPlan {
  std::string container = {};               // the sandbox's, whose network it joins
  std::vector<std::string> resolvers = {};  // that it asks
  std::string cgroup_parent = {};           // "" is the engine's own
};

// The body of POST /containers/create. The limits of the options were checked (check_sidecar_limits).
boost::json::value sidecar_body(const SandboxSpec& spec, const SidecarPlan& plan, const DockerOptions& options);

// [egress] limits: cpu and memory, in Docker's grammar.
Result<void> check_sidecar_limits(const config::EgressSection& egress);

}  // namespace osb::runtime
