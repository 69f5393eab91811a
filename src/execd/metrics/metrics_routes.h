#pragma once

#include "async/net.h"
#include "async/timer.h"
#include "http/router.h"
#include "sys/cgroup_stats.h"

namespace osb::execd {

// What the metrics routes share; outlives the router. `closing` ends the streams: they have no end of their own.
struct MetricsContext {
  explicit MetricsContext(net::any_io_executor executor) : meter(stats), closing(std::move(executor)) {}
  sys::CgroupStats stats;
  sys::CpuMeter meter;  // of /metrics; each stream has its own, so that they do not cut each other's intervals short
  Event closing;
};

// GET /metrics, and GET /metrics/watch: one object now and one each second, each on a line followed by an empty one.
void add_metrics_routes(http::Router& router, MetricsContext& context);

}  // namespace osb::execd
