#include "execd/metrics/metric_store.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/concat.h"
#include "base/json_escape.h"

namespace osb::execd {
namespace {

constexpr std::string_view kScope = "opensandbox/execd";

double to_millis(std::chrono::nanoseconds duration) { return static_cast<double>(duration.count()) / 1e6; }

std::int64_t unix_nanos(std::chrono::system_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

// A client may send any word; each would be a series for good.
std::string known_method(std::string_view method) {
  constexpr std::string_view kKnown[] = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"};
  return std::string(std::ranges::find(kKnown, method) != std::end(kKnown) ? method : "OTHER");
}

// JSON has no word for what is not finite.
std::string number(double value) {
  char text[32];
  const int size = std::snprintf(text, sizeof text, "%.15g", std::isfinite(value) ? value : 0.0);
  return {text, static_cast<std::size_t>(size)};
}

void append_attribute(std::string& out, std::string_view key, std::string_view value) {
  if (!out.ends_with('[')) out += ',';
  out += R"({"key":)";
  append_json_string(out, key);
  out += R"(,"value":{"stringValue":)";
  append_json_string(out, value);
  out += "}}";
}

std::string list_json(const MetricAttributes& attributes) {
  std::string out = "[";
  for (const auto& [key, value] : attributes) append_attribute(out, key, value);
  return out + ']';
}

}  // namespace

std::string route_template(std::string_view route) {
  if (route.empty()) return "unknown";
  std::string out;
  for (const char c : route) {
    if (c == '{') {
      out += ':';
    } else if (c != '}' && c != '*') {
      out += c;
    }
  }
  return out;
}

MetricStore::MetricStore(MetricAttributes resource, MetricAttributes common)
    : resource_(std::move(resource)), common_(std::move(common)), started_(std::chrono::system_clock::now()) {}

void MetricStore::Histogram::add(double value) {
  // A bound belongs to the bucket below it.
  const auto bucket = std::ranges::lower_bound(kBounds, value) - kBounds.begin();
  ++counts[static_cast<std::size_t>(bucket)];
  min = count == 0 ? value : std::min(min, value);
  max = count == 0 ? value : std::max(max, value);
  ++count;
  sum += value;
}

void MetricStore::record_request(std::string_view method, std::string_view route, int status,
                                 std::chrono::nanoseconds duration) {
  requests_[{{"http_method", known_method(method)},
             {"http_route", route_template(route)},
             {"http_status_code", std::to_string(status)}}]
      .add(to_millis(duration));
}

void MetricStore::record_execution(std::string_view operation, bool success, std::chrono::nanoseconds duration) {
  executions_[{{"operation", std::string(operation)}, {"result", success ? "success" : "failure"}}].add(
      to_millis(duration));
}

void MetricStore::record_filesystem(std::string_view operation, bool success, std::chrono::nanoseconds duration) {
  filesystem_[{{"operation", std::string(operation)}, {"result", success ? "success" : "failure"}}].add(
      to_millis(duration));
}

std::string MetricStore::attributes_json(const MetricAttributes& own) const {
  MetricAttributes all = own;
  all.insert(all.end(), common_.begin(), common_.end());
  return list_json(all);
}

void MetricStore::append_histogram(std::string& out, std::string_view name, const Series& series,
                                   std::string_view times) const {
  if (series.empty()) return;
  if (!out.ends_with('[')) out += ',';
  out += concat(R"({"name":")", name, R"(","unit":"ms","histogram":{"aggregationTemporality":2,"dataPoints":[)");
  for (const auto& [attributes, histogram] : series) {
    if (!out.ends_with('[')) out += ',';
    out += concat(R"({"attributes":)", attributes_json(attributes), ',', times, R"(,"count":")", histogram.count,
                  R"(","sum":)", number(histogram.sum), R"(,"min":)", number(histogram.min), R"(,"max":)",
                  number(histogram.max), R"(,"bucketCounts":[)");
    for (const std::uint64_t count : histogram.counts) out += concat(out.ends_with('[') ? "\"" : ",\"", count, '"');
    out += R"(],"explicitBounds":[)";
    for (const double bound : kBounds) out += concat(out.ends_with('[') ? "" : ",", number(bound));
    out += "]}";
  }
  out += "]}}";
}

// 64-bit integers are strings in protobuf's JSON.
std::string MetricStore::to_json(const SystemSample& system, std::chrono::system_clock::time_point now) const {
  const std::string times =
      concat(R"("startTimeUnixNano":")", unix_nanos(started_), R"(","timeUnixNano":")", unix_nanos(now), '"');
  const auto integer = [&](const MetricAttributes& attributes, std::uint64_t value) {
    return concat(R"({"attributes":)", attributes_json(attributes), ',', times, R"(,"asInt":")", value, R"("})");
  };
  const auto gauge = [](std::string_view name, std::string_view unit, std::string_view points) {
    return concat(R"({"name":")", name, R"(","unit":")", unit, R"(","gauge":{"dataPoints":[)", points, "]}}");
  };

  std::string out =
      R"({"resourceMetrics":[{"resource":{"attributes":)" + list_json(resource_) +
      concat(R"(},"scopeMetrics":[{"scope":{"name":")", kScope, R"(","version":")", OSB_VERSION, R"("},"metrics":[)");
  append_histogram(out, "execd.http.request.duration", requests_, times);
  append_histogram(out, "execd.execution.duration", executions_, times);
  append_histogram(out, "execd.filesystem.operations.duration", filesystem_, times);
  if (!out.ends_with('[')) out += ',';
  out += gauge("execd.system.process.count", "{process}", integer({}, system.processes)) + ',';
  out += gauge("execd.system.cpu.usage", "%",
               concat(R"({"attributes":)", attributes_json({}), ',', times, R"(,"asDouble":)",
                      number(system.cpu_percent), '}')) +
         ',';
  out += gauge("execd.system.memory.usage_bytes", "By", integer({}, system.memory_bytes)) + ',';
  out += R"({"name":"execd.system.network.io.bytes","unit":"By","sum":{"aggregationTemporality":2,"isMonotonic":true,)"
         R"("dataPoints":[)" +
         integer({{"direction", "in"}}, system.network_received) + ',' +
         integer({{"direction", "out"}}, system.network_sent) + "]}},";
  out += gauge(
      "execd.system.network.connections.active", "{connection}",
      integer({{"protocol", "tcp"}}, system.tcp_sockets) + ',' + integer({{"protocol", "udp"}}, system.udp_sockets));
  return out + "]}]}]}";
}

}  // namespace osb::execd
