#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "execd/metrics/telemetry.h"

namespace osb::execd {

using MetricAttributes = std::vector<std::pair<std::string, std::string>>;

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

// Collects histograms and writes them, with the system's numbers, as OTLP's JSON (ExportMetricsServiceRequest). All
// sums count from the start of the daemon (cumulative temporality).
class MetricStore final : public Telemetry {
 public:
  // `common` goes to every point, `resource` describes this process.
  MetricStore(MetricAttributes resource, MetricAttributes common);

  void record_request(std::string_view method, std::string_view route, int status,
                      std::chrono::nanoseconds duration) override;
  void record_execution(std::string_view operation, bool success, std::chrono::nanoseconds duration) override;
  void record_filesystem(std::string_view operation, bool success, std::chrono::nanoseconds duration) override;

  std::string to_json(const SystemSample& system, std::chrono::system_clock::time_point now) const;

 private:
  // Milliseconds; the OpenTelemetry SDKs' default.
  static constexpr std::array<double, 15> kBounds = {0,   5,   10,   25,   50,   75,   100,  250,
                                                     500, 750, 1000, 2500, 5000, 7500, 10000};
  struct Histogram {
    std::array<std::uint64_t, kBounds.size() + 1> counts{};
    std::uint64_t count = 0;
    double sum = 0;
    double min = 0;
    double max = 0;
    void add(double value);
  };
  using Series = std::map<MetricAttributes, Histogram>;

  void append_histogram(std::string& out, std::string_view name, const Series& series, std::string_view times) const;
  std::string attributes_json(const MetricAttributes& own) const;

  MetricAttributes resource_;
  MetricAttributes common_;
  std::chrono::system_clock::time_point started_;
  Series requests_;
  Series executions_;
  Series filesystem_;
};

// "/code/contexts/{context_id}" -> "/code/contexts/:context_id", as the contract's attribute has it; empty: "unknown".
std::string route_template(std::string_view route);

}  // namespace osb::execd
