#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace osb::otlp {

using Attributes = std::vector<std::pair<std::string, std::string>>;

// Counts values by their size. `bounds` rise and outlive it; a value on a bound belongs to the bucket below it.
class Histogram {
 public:
  explicit Histogram(std::span<const double> bounds) : bounds_(bounds), counts_(bounds.size() + 1) {}
  void add(double value);
  // Counts the values of another one with the same bounds too.
  void merge(const Histogram& other);

 private:
  friend class MetricDocument;
  std::span<const double> bounds_;
  std::vector<std::uint64_t> counts_;
  std::uint64_t count_ = 0;
  double sum_ = 0, min_ = 0, max_ = 0;
};

// Writes metrics as OTLP's JSON (ExportMetricsServiceRequest). All sums and histograms count from `started` on: with
// `delta` the end of the document before, else the beginning of the process.
class MetricDocument {
 public:
  enum class Kind : std::uint8_t { Gauge, Sum, Histogram };
  struct Head {
    std::string_view scope;  // "opensandbox/execd"
    const Attributes& resource;
    const Attributes& common;  // of every point
    std::chrono::system_clock::time_point started, now;
    bool delta = false;
  };
  explicit MetricDocument(const Head& head);

  // One metric: begin, its points, end. A metric without points is left out.
  void begin(Kind kind, std::string_view name, std::string_view unit);
  void point(const Attributes& own, std::uint64_t value);
  void point(const Attributes& own, double value);
  void point(const Attributes& own, const Histogram& value);
  void end();

  std::string finish() &&;

 private:
  void begin_point(const Attributes& own);

  std::string out_, common_, times_;
  const bool delta_;
  std::size_t metric_ = 0;  // where the metric begins
  bool points_ = false;
};

}  // namespace osb::otlp
