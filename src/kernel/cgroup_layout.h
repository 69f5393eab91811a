#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "kernel/cgroup_controller.h"

namespace osb::kernel {

// The cgroups of this host, as the factory found them. Paths of cgroups are `parent` + "/" + id.
struct CgroupLayout {
  struct Controller {
    CgroupController::Kind kind;
    CgroupController::Dialect dialect;
    std::string parent;
    std::unique_ptr<CgroupController> files;
  };
  UniqueFd own_mount;     // of cgroup2, where the host has none; `v2_parent` goes through it
  std::string v2_parent;  // always there
  std::vector<Controller> controllers;
  std::vector<std::string> v1_parents;  // one per hierarchy, even where it has several controllers
  // The hierarchy of v1 that only counts and limits io. A cgroup in it costs as much as the one for pids, so only
  // cgroups with such a limit have one.
  std::string io_parent;
  // The parent in the hierarchy with the hugetlb controller, whose limits are 0; empty without one. It has no cgroups
  // below: its limit holds for all members. On v1 (`huge_pages_v1`) members join it.
  std::string huge_pages_parent;
  bool huge_pages_v1 = false;
};

// The view of cgroup `id` for its members: names, and the directories behind them (LimitedCgroup::open_view).
std::vector<std::pair<std::string, std::string>> view_of(const CgroupLayout& layout, const std::string& id);

}  // namespace osb::kernel
