#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "sys/cgroup_stats.h"
#include "sys/spawn.h"

namespace osb::execd {

// Why a command, a session's run or a terminal's program failed, where execd knows: a code for programs
// (base/out_of_memory.h) and a sentence for people.
struct EndReason {
  std::string code;
  std::string message;
};

// Appends `,"reason":..,"reason_message":..` to an object that is being written; nothing without a reason.
void append_reason(std::string& json, const std::optional<EndReason>& reason);

// Finds out whether the kernel killed a run because the sandbox had no memory left. The cgroup counts such kills
// without naming the killed process, so each kill explains one run: a second run that ends by SIGKILL needs a second
// kill. One thread.
class OomKills {
 public:
  // Nothing can be read: no run is ever explained.
  OomKills() = default;
  // `stats` is asked with each run; its result outlives this object.
  explicit OomKills(std::function<const sys::CgroupStats&()> stats) : stats_(std::move(stats)) {}

  // State of the counters when a run begins.
  struct Mark {
    std::optional<std::uint64_t> kills, limit_hits;  // absent: unknown
    std::uint64_t explained = 0;
  };
  Mark mark() const;

  // Explains the end of a run that began at `start`, if the kernel has killed something since that no other run is
  // explained by. Only for runs that ended by SIGKILL (or whose shell reports that of a child: exit code 137), and that
  // execd itself did not kill.
  std::optional<EndReason> explain(const Mark& start, const sys::ExitStatus& status);

 private:
  std::function<const sys::CgroupStats&()> stats_;
  std::uint64_t explained_ = 0;
};

}  // namespace osb::execd
