#include "execd/metrics/system_metrics.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/time.h"

namespace osb::execd {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;

double finite(double value, double low, double high) {
  return std::isfinite(value) ? std::clamp(value, low, high) : low;
}

}  // namespace

std::string SystemMetrics::to_json() const {
  char text[256];
  const int size = std::snprintf(
      text, sizeof text,
      R"({"cpu_count":%.1f,"cpu_used_pct":%.2f,"mem_total_mib":%.2f,"mem_used_mib":%.2f,"timestamp":%lld})", cpu_count,
      cpu_used_pct, mem_total_mib, mem_used_mib, static_cast<long long>(timestamp));
  return {text, static_cast<std::size_t>(size)};
}

SystemMetrics sample_metrics(const sys::CgroupStats& stats, sys::CpuMeter& meter) {
  const sys::CgroupStats::Memory memory = stats.memory();
  SystemMetrics out;
  out.cpu_count = std::max(1.0, std::floor(finite(stats.cpu_count(), 1, 1e6)));
  out.cpu_used_pct = finite(meter.percent(), 0, 100);
  out.mem_total_mib = static_cast<double>(memory.total_bytes) / kMiB;
  out.mem_used_mib = static_cast<double>(std::min(memory.used_bytes, memory.total_bytes)) / kMiB;
  out.timestamp = unix_millis();
  return out;
}

}  // namespace osb::execd
