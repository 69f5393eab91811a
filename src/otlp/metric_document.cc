#include "otlp/metric_document.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/concat.h"
#include "base/json_escape.h"

namespace osb::otlp {
namespace {

std::int64_t unix_nanos(std::chrono::system_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

// JSON has no word for what is not finite.
std::string number(double value) {
  char text[32];
  const int size = std::snprintf(text, sizeof text, "%.15g", std::isfinite(value) ? value : 0.0);
  return {text, static_cast<std::size_t>(size)};
}

void append_attributes(std::string& out, const Attributes& attributes) {
  for (const auto& [key, value] : attributes) {
    if (!out.ends_with('[')) out += ',';
    out += R"({"key":)";
    append_json_string(out, key);
    out += R"(,"value":{"stringValue":)";
    append_json_string(out, value);
    out += "}}";
  }
}

}  // namespace

void Histogram::add(double value) {
  const auto bucket = std::ranges::lower_bound(bounds_, value) - bounds_.begin();
  ++counts_[static_cast<std::size_t>(bucket)];
  min_ = count_ == 0 ? value : std::min(min_, value);
  max_ = count_ == 0 ? value : std::max(max_, value);
  ++count_;
  sum_ += value;
}

void Histogram::merge(const Histogram& other) {
  if (other.count_ == 0) return;
  for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
  min_ = count_ == 0 ? other.min_ : std::min(min_, other.min_);
  max_ = count_ == 0 ? other.max_ : std::max(max_, other.max_);
  count_ += other.count_;
  sum_ += other.sum_;
}

// 64-bit integers are strings in protobuf's JSON.
MetricDocument::MetricDocument(const Head& head)
    : out_(R"({"resourceMetrics":[{"resource":{"attributes":[)"),
      common_("["),
      times_(concat(R"("startTimeUnixNano":")", unix_nanos(head.started), R"(","timeUnixNano":")", unix_nanos(head.now),
                    '"')),
      delta_(head.delta) {
  append_attributes(out_, head.resource);
  append_attributes(common_, head.common);
  common_.erase(0, 1);
  out_ += concat(R"(]},"scopeMetrics":[{"scope":{"name":")", head.scope, R"(","version":")", OSB_VERSION,
                 R"("},"metrics":[)");
}

void MetricDocument::begin(Kind kind, std::string_view name, std::string_view unit) {
  metric_ = out_.size();
  points_ = false;
  if (!out_.ends_with('[')) out_ += ',';
  out_ += concat(R"({"name":")", name, R"(","unit":")", unit, R"(",)");
  if (kind == Kind::Gauge) out_ += R"("gauge":{)";
  if (kind == Kind::Sum) out_ += R"("sum":{"isMonotonic":true,)";
  if (kind == Kind::Histogram) out_ += R"("histogram":{)";
  if (kind != Kind::Gauge) out_ += concat(R"("aggregationTemporality":)", delta_ ? 1 : 2, ',');
  out_ += R"("dataPoints":[)";
}

void MetricDocument::begin_point(const Attributes& own) {
  points_ = true;
  if (!out_.ends_with('[')) out_ += ',';
  out_ += R"({"attributes":[)";
  append_attributes(out_, own);
  if (!own.empty() && !common_.empty()) out_ += ',';
  out_ += concat(common_, "],", times_, ',');
}

void MetricDocument::point(const Attributes& own, std::uint64_t value) {
  begin_point(own);
  out_ += concat(R"("asInt":")", value, R"("})");
}

void MetricDocument::point(const Attributes& own, double value) {
  begin_point(own);
  out_ += concat(R"("asDouble":)", number(value), '}');
}

void MetricDocument::point(const Attributes& own, const Histogram& value) {
  begin_point(own);
  out_ += concat(R"("count":")", value.count_, R"(","sum":)", number(value.sum_), R"(,"min":)", number(value.min_),
                 R"(,"max":)", number(value.max_), R"(,"bucketCounts":[)");
  for (const std::uint64_t count : value.counts_) out_ += concat(out_.ends_with('[') ? "\"" : ",\"", count, '"');
  out_ += R"(],"explicitBounds":[)";
  for (const double bound : value.bounds_) out_ += concat(out_.ends_with('[') ? "" : ",", number(bound));
  out_ += "]}";
}

void MetricDocument::end() {
  if (points_) {
    out_ += "]}}";
  } else {
    out_.resize(metric_);
  }
}

std::string MetricDocument::finish() && { return std::move(out_) + "]}]}]}"; }

}  // namespace osb::otlp
