#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernel/limited_cgroup.h"
#include "sandboxd/launch/launch_plan.h"
#include "sandboxd/sandbox/ahead.h"
#include "sandboxd/sandbox/sandbox_builder.h"

namespace osb::sandboxd {

struct NewCgroup {
  kernel::LimitedCgroup group;
  kernel::CgroupJoin join;
  std::vector<std::pair<std::string, UniqueFd>> view;
  std::vector<std::pair<std::string, UniqueFd>> hidden_stats;  // LimitedCgroup::open_hidden_stats()
};

// A sandbox's cgroup, made beside everything else that its start needs: it takes as long as all of that. It is in
// `live` when this is gone, whether it was asked for or not, so that it is torn down with the rest.
class CgroupToCome {
 public:
  CgroupToCome(LiveSandbox& live, BlockingPool& pool, std::move_only_function<Result<NewCgroup>()> make)
      : live_(live), ahead_(pool, std::move(make)) {}
  ~CgroupToCome() {
    if (!asked_) (void)get();
  }
  CgroupToCome(const CgroupToCome&) = delete;
  CgroupToCome& operator=(const CgroupToCome&) = delete;

  // Into live.cgroup, and into the plan: its descriptors are open as long as this lives. Once.
  Result<void> get(LaunchPlan& plan) {
    if (auto got = get(); !got) return got;
    plan.cgroup.v2_directory = cgroup_->join.v2_directory.get();
    for (const UniqueFd& tasks : cgroup_->join.v1_tasks) plan.cgroup.v1_tasks.push_back(tasks.get());
    for (const auto& [name, fd] : cgroup_->view) plan.cgroup.view.emplace_back(name, fd.get());
    return {};
  }
  // After get(): counters of the cgroup that cannot be seen inside.
  const std::vector<std::pair<std::string, UniqueFd>>& hidden_stats() const { return cgroup_->hidden_stats; }

 private:
  Result<void> get() {
    asked_ = true;
    auto made = ahead_.get();
    if (!made) return Failure(made.error());
    cgroup_ = std::move(*made);
    live_.cgroup = cgroup_->group;
    return {};
  }

  LiveSandbox& live_;
  bool asked_ = false;
  std::optional<NewCgroup> cgroup_;
  Ahead<Result<NewCgroup>> ahead_;
};

}  // namespace osb::sandboxd
