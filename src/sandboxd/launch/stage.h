#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "sandboxd/launch/launch_plan.h"

namespace osb::sandboxd {

// The settings of a stage. A LaunchPlan with this stage must have the same value in each of these.
struct StagePlan {
  std::variant<LayersRoot, HostRoot> root;
  int userns = -1;
  std::uint32_t id_base = 0;
  int netns = -1;
  std::uint64_t shm_bytes = 64 << 20;
  std::vector<std::string> cgroup_view;  // the names of CgroupPlan::view
};

// The first half of a launch, done before it is known what for: half of its time. The directories of the root may be
// renamed afterwards. Blocks; any thread, several at a time. Errors as of launch().
Result<Stage> build_stage(StagePlan plan);

}  // namespace osb::sandboxd
