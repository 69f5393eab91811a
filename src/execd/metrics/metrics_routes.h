#pragma once

#include <memory>

#include "async/net.h"
#include "async/timer.h"
#include "http/router.h"
#include "sys/cgroup_stats.h"

namespace osb::execd {

// Shared by the metrics routes; outlives the router. `closing` ends the streams: they have no end of their own.
struct MetricsContext {
  MetricsContext(net::any_io_executor executor, std::shared_ptr<const sys::CgroupFiles> cgroup_files)
      : closing(std::move(executor)), cgroup_files_(std::move(cgroup_files)) {}

  struct Sampler {
    explicit Sampler(std::shared_ptr<const sys::CgroupFiles> files) : stats({}, "/proc", std::move(files)) {}
    sys::CgroupStats stats;
    sys::CpuMeter meter{stats};  // of /metrics; each stream has its own: they do not cut each other's intervals short
  };
  // Made by the first call, which the daemon makes when it has answered its first request: finding the cgroups takes a
  // tenth of the time between its exec and that answer, for which a sandbox's create waits.
  Sampler& sampler() {
    if (!sampler_) sampler_ = std::make_unique<Sampler>(cgroup_files_);
    return *sampler_;
  }

  Event closing;

 private:
  const std::shared_ptr<const sys::CgroupFiles> cgroup_files_;
  std::unique_ptr<Sampler> sampler_;
};

// GET /metrics, and GET /metrics/watch: one object now and one each second, each on a line followed by an empty one.
void add_metrics_routes(http::Router& router, MetricsContext& context);

}  // namespace osb::execd
