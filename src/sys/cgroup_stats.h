#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/unique_fd.h"
#include "sys/cgroup.h"

namespace osb::sys {

// Open files of our cgroup by the kernel's names ("cpu.stat", "memory.usage_in_bytes"): from a parent that sees more of
// the hierarchies than we do.
using CgroupFiles = std::map<std::string, UniqueFd, std::less<>>;

// How much of the machine is ours, by the cgroups this process is in (v1, v2 or both), else by the host's own numbers.
// Limits of all visible ancestors count: the tightest one is the sandbox's.
class CgroupStats {
 public:
  // Finds the directories once: a process rarely changes its cgroup. Files in `given` are read from there.
  explicit CgroupStats(const CgroupSources& sources = {}, std::string proc = "/proc",
                       std::shared_ptr<const CgroupFiles> given = {});

  // CPUs we may use: the quota if there is one (0.5 is half a CPU), at most those we may run on.
  double cpu_count() const;
  // CPU time used by the sandbox; nothing where only the host's /proc/stat is left to ask (see proc_stats.h).
  std::optional<std::chrono::nanoseconds> cpu_used() const;

  struct Memory {
    std::uint64_t total_bytes = 0;  // the limit, or the host's memory if that is less
    std::uint64_t used_bytes = 0;   // without file pages that can be dropped at once; at most total_bytes
    bool limited = false;           // false: total_bytes is the host's memory
  };
  // Used bytes are the host's only where no cgroup counts ours.
  Memory memory() const;

  // Processes of our cgroup that the kernel has killed because there was no memory left, for any reason; nothing where
  // no cgroup counts them.
  std::optional<std::uint64_t> oom_kills() const;
  // How often our cgroup had no memory left by its own limit. v1 does not count that where swap is limited too.
  std::optional<std::uint64_t> limit_hits() const;
  // v1: whether our cgroup has ever used as much as its limit, file pages included. Nothing where that is unknown.
  std::optional<bool> peak_was_limit() const;

 private:
  std::optional<std::string> given(std::string_view name) const;

  CgroupDirectories directories_;
  std::string proc_;
  std::shared_ptr<const CgroupFiles> given_;
};

// CPU use between two questions, without sleeping: 0 to 100, of all that cpu_count() allows. The first answer covers
// the time since construction.
class CpuMeter {
 public:
  explicit CpuMeter(const CgroupStats& stats, std::string proc = "/proc");  // `stats` outlives it
  double percent();

 private:
  struct Sample {
    double used = 0;     // seconds of CPU time
    double elapsed = 0;  // seconds of real time
    double cpus = 1;     // how many of the first could pass in one of the second
  };
  Sample sample() const;

  const CgroupStats& stats_;
  std::string proc_;
  Sample last_;
  double last_percent_ = 0;
};

}  // namespace osb::sys
