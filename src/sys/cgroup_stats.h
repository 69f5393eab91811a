#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "sys/cgroup.h"

namespace osb::sys {

// How much of the machine is ours, by the cgroups this process is in (v1, v2 or both), else by the host's own numbers.
// Limits of all visible ancestors count: the tightest one is the sandbox's.
class CgroupStats {
 public:
  // Finds the directories once: a process rarely changes its cgroup.
  explicit CgroupStats(const CgroupSources& sources = {}, std::string proc = "/proc");

  // CPUs we may use: the quota if there is one (0.5 is half a CPU), at most those we may run on.
  double cpu_count() const;
  // CPU time used by the sandbox; nothing where only the host's /proc/stat is left to ask (see proc_stats.h).
  std::optional<std::chrono::nanoseconds> cpu_used() const;

  struct Memory {
    std::uint64_t total_bytes = 0;  // the limit, or the host's memory if that is less
    std::uint64_t used_bytes = 0;   // without file pages that can be dropped at once; at most total_bytes
    bool limited = false;           // false: the host's numbers
  };
  Memory memory() const;

 private:
  CgroupDirectories directories_;
  std::string proc_;
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
