#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "async/net.h"
#include "base/error.h"
#include "execd/metrics/metric_store.h"
#include "execd/path/path.h"
#include "otlp/sender.h"
#include "sys/cgroup_stats.h"

namespace osb::execd {

// Of OpenTelemetry's variables.
struct OtlpOptions {
  otlp::Collector collector;
  MetricAttributes resource;
  MetricAttributes common;

  // Nothing: no telemetry is configured. An error: it is configured in a way that execd does not support. execd neither
  // resolves names nor speaks TLS, so the endpoint is plain HTTP to an IP address (or localhost); a collector that
  // needs more is reached through one on the host. `hostinfo` is the file that may hold the host's address.
  static Result<std::optional<OtlpOptions>> from_environment(const Environment& env,
                                                             const std::string& hostinfo = "/etc/hostinfo");
};

// Sends what a MetricStore holds to a collector. One thread.
class OtlpExporter {
 public:
  explicit OtlpExporter(OtlpOptions options, std::shared_ptr<const sys::CgroupFiles> cgroup_files = {});

  Telemetry& telemetry() { return store_; }
  // Every point has them from now on.
  void add_attributes(const MetricAttributes& attributes) { store_.add_attributes(attributes); }
  // Until cancelled: each interval.
  net::awaitable<void> run();
  // Now, within `limit`.
  net::awaitable<Result<void>> flush(std::chrono::milliseconds limit);

 private:
  SystemSample sample();

  MetricStore store_;
  otlp::Sender sender_;
  sys::CgroupStats stats_;
  sys::CpuMeter meter_;
};

}  // namespace osb::execd
