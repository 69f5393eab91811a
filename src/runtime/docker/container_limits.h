#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include "api/resource_limits.h"
#include "base/error.h"
#include "runtime/docker/docker_context.h"

namespace osb::runtime {

// The limits of one container: those of the request, and the operator's for the rest.
struct ContainerLimits {
  api::ResourceLimits amounts;
  std::optional<std::int64_t> pids;  // nothing: no limit
  std::string io_device;             // the node of the disk that io limits are about
  std::string cgroup_parent;         // empty: the engine's own
  bool ulimits = true;               // false: Podman, which adds one of open files that it may not be able to set
};

// 400 for a limit that is unknown, that the operator does not allow or that this engine cannot enforce: engines take
// such limits, and at most warn.
Result<ContainerLimits> container_limits(const std::optional<api::StringMap>& wanted, const DockerOptions& options,
                                         const EngineFacts& facts);

// Into the HostConfig of a create.
void add_limits(boost::json::object& host, const ContainerLimits& limits);

// The abilities of an engine, from its /info. Its memory and CPUs are what the options' ceilings are derived from.
// Code::InvalidRequest: ceilings that contradict each other.
Result<LimitFacts> limit_facts(const boost::json::value& info, const DockerOptions& options, bool local, bool rootless);

}  // namespace osb::runtime
