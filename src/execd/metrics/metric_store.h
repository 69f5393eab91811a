#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "execd/metrics/telemetry.h"
#include "otlp/metric_document.h"

namespace osb::execd {

using MetricAttributes = otlp::Attributes;

// A moment's numbers that are asked for at each export instead of being recorded.
struct SystemSample {
  std::uint64_t processes = 0;
  double cpu_percent = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t network_received = 0;
  std::uint64_t network_sent = 0;
  std::uint64_t tcp_sockets = 0;
  std::uint64_t udp_sockets = 0;
};

// Collects histograms and writes them, with the system's numbers, as OTLP's JSON. Each document has the values since
// the last one that the collector took (delta temporality).
class MetricStore final : public Telemetry {
 public:
  // `common` goes to every point, `resource` describes this process.
  MetricStore(MetricAttributes resource, MetricAttributes common, const Clock& clock = system_clock());

  void record_request(std::string_view method, std::string_view route, int status,
                      std::chrono::nanoseconds duration) override;
  void record_execution(std::string_view operation, bool success, std::chrono::nanoseconds duration) override;
  void record_filesystem(std::string_view operation, bool success, std::chrono::nanoseconds duration) override;

  // To every point, also of before; one that is there already keeps its value.
  void add_attributes(const MetricAttributes& attributes);

  // The next document.
  std::string take(const SystemSample& system);
  // Whether the collector took it. What it did not take, or what a caller never knew of, is in the next document again.
  void settle(bool sent);

 private:
  using Series = std::map<MetricAttributes, otlp::Histogram>;
  struct Values {
    Series requests, executions, filesystem;
  };
  // The values of a document on its way.
  struct Taken {
    Values values;
    std::chrono::system_clock::time_point now;
    std::uint64_t network_received = 0, network_sent = 0;
  };

  MetricAttributes resource_;
  MetricAttributes common_;
  const Clock& clock_;
  Values values_;
  std::chrono::system_clock::time_point started_;          // end of the last document that the collector took
  std::uint64_t network_received_ = 0, network_sent_ = 0;  // as it had them
  std::optional<Taken> taken_;
};

// "/code/contexts/{context_id}" -> "/code/contexts/:context_id", as the contract's attribute has it; empty: "unknown".
std::string route_template(std::string_view route);

}  // namespace osb::execd
