#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "kernel/limited_cgroup.h"

namespace osb::kernel {

// One controller in the dialect of its hierarchy. Knows files of a cgroup directory and nothing about where it is.
class CgroupController {
 public:
  enum class Kind { Memory, Cpu, Pids, Io };
  enum class Dialect { V1, V2 };
  static constexpr Kind kKinds[] = {Kind::Memory, Kind::Cpu, Kind::Pids, Kind::Io};

  static std::unique_ptr<CgroupController> make(Kind kind, Dialect dialect);
  // As the kernel spells it in cgroup.controllers (v2) or among the mount options (v1).
  static std::string_view name(Kind kind, Dialect dialect);
  // Files of a cgroup that say what members use of this and may use.
  static std::span<const char* const> stat_files(Kind kind, Dialect dialect);
  // Does anything in `limits` need this controller?
  static bool limited_by(Kind kind, const Limits& limits);

  virtual ~CgroupController() = default;
  // Writes what `limits` says about this controller. Errors are typed and name the limit (LimitedCgroup::update).
  virtual Result<void> apply(const std::string& directory, const Limits& limits) const = 0;
  // Takes the limit of this controller away again, as far as it has one.
  virtual Result<void> lift(const std::string& directory) const = 0;
  // Fills in the counters of this controller; unreadable ones stay absent.
  virtual void read(const std::string& directory, CgroupUsage& usage) const = 0;
  // Can apply() work for cgroups below `parent`? Kernels are built without some parts of a controller.
  virtual bool can_limit(const std::string& parent) const = 0;
};

// Does the memory controller of `parent` account swap, so that it can be forbidden?
bool accounts_swap(const std::string& parent, CgroupController::Dialect dialect);

}  // namespace osb::kernel
