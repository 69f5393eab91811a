#pragma once

#include <string>

#include <boost/json/value.hpp>

#include "base/error.h"
#include "config/ceilings.h"

namespace osb::runtime {

// The cgroup that holds all sandboxes of an engine, so that they have a limit together.
struct ParentCgroup {
  std::string name;     // for a container's CgroupParent; empty: the engine's own
  std::string missing;  // why there is no such limit; empty: there is one
};

inline constexpr const char* kOwnParent = "/opensandbox-containers";

// Makes kOwnParent below `root` with the totals of `ceilings` if the server may: it is root on the engine's machine,
// and the engine makes cgroups itself (cgroupfs). Otherwise the parent is the operator's to make and to name. `named`
// is [docker] cgroup_parent, whose limits are never touched. Blocks for microseconds.
ParentCgroup prepare_parent_cgroup(const std::string& named, const boost::json::value& info, bool local,
                                   const config::Ceilings& ceilings, const std::string& root = "/sys/fs/cgroup");

}  // namespace osb::runtime
