#pragma once

#include <cstdint>
#include <string>

#include "sys/cgroup_stats.h"

namespace osb::execd {

// The answer of GET /metrics. Every number is finite and mem_used_mib is never above mem_total_mib.
struct SystemMetrics {
  double cpu_count = 1;     // whole CPUs, at least one
  double cpu_used_pct = 0;  // 0 to 100, of all that the sandbox may use
  double mem_total_mib = 0;
  double mem_used_mib = 0;
  std::int64_t timestamp = 0;  // Unix ms

  std::string to_json() const;
};

// Looks at the sandbox's own cgroups, or at the machine where there are none. Never waits: the CPU share is that since
// the meter was last asked, or since it was made.
SystemMetrics sample_metrics(const sys::CgroupStats& stats, sys::CpuMeter& meter);

}  // namespace osb::execd
