#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "async/net.h"
#include "base/error.h"
#include "execd/metrics/metric_store.h"
#include "execd/path/path.h"
#include "http/client.h"
#include "sys/cgroup_stats.h"

namespace osb::execd {

// OpenTelemetry's variables, as far as metrics over HTTP need them.
struct OtlpOptions {
  std::string origin;  // "192.0.2.1:4318"
  std::string target = "/v1/metrics";
  http::Headers headers;
  std::chrono::milliseconds interval{60'000};
  std::chrono::milliseconds timeout{10'000};
  MetricAttributes resource;
  MetricAttributes common;

  // Nothing: no telemetry is configured. An error: it is configured in a way that execd does not support. execd neither
  // resolves names nor speaks TLS, so the endpoint is plain HTTP to an IP address (or localhost); a collector that
  // needs more is reached through one on the host. `hostinfo` is the file that may hold the host's address.
  static Result<std::optional<OtlpOptions>> from_environment(const Environment& env,
                                                             const std::string& hostinfo = "/etc/hostinfo");
};

// Sends what a MetricStore holds to a collector, as OTLP over HTTP in JSON. One thread.
class OtlpExporter {
 public:
  explicit OtlpExporter(OtlpOptions options, std::shared_ptr<const sys::CgroupFiles> cgroup_files = {});

  Telemetry& telemetry() { return store_; }
  // Until cancelled: each interval. A collector that is away is warned about once until it is back.
  net::awaitable<void> run();
  // Now, within `limit`.
  net::awaitable<Result<void>> flush(std::chrono::milliseconds limit);

 private:
  SystemSample sample();

  OtlpOptions options_;
  MetricStore store_;
  http::Client client_;
  sys::CgroupStats stats_;
  sys::CpuMeter meter_;
};

}  // namespace osb::execd
