#include "execd/metrics/metric_store.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

namespace osb::execd {
namespace {

constexpr std::string_view kScope = "opensandbox/execd";
// Milliseconds; the OpenTelemetry SDKs' default.
constexpr std::array<double, 15> kBounds = {0, 5, 10, 25, 50, 75, 100, 250, 500, 750, 1000, 2500, 5000, 7500, 10000};

// A client may send any word; each would be a series for good.
std::string known_method(std::string_view method) {
  constexpr std::string_view kKnown[] = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"};
  return std::string(std::ranges::find(kKnown, method) != std::end(kKnown) ? method : "OTHER");
}

void record(std::map<MetricAttributes, otlp::Histogram>& series, MetricAttributes attributes,
            std::chrono::nanoseconds duration) {
  const double millis = static_cast<double>(duration.count()) / 1e6;
  series.try_emplace(std::move(attributes), std::span<const double>(kBounds)).first->second.add(millis);
}

void put_back(std::map<MetricAttributes, otlp::Histogram>& series,
              const std::map<MetricAttributes, otlp::Histogram>& taken) {
  for (const auto& [attributes, values] : taken) {
    series.try_emplace(attributes, std::span<const double>(kBounds)).first->second.merge(values);
  }
}

// A device that goes takes its numbers with it.
std::uint64_t grown(std::uint64_t before, std::uint64_t now) { return now > before ? now - before : 0; }

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

MetricStore::MetricStore(MetricAttributes resource, MetricAttributes common, const Clock& clock)
    : resource_(std::move(resource)), common_(std::move(common)), clock_(clock), started_(clock.now()) {}

void MetricStore::add_attributes(const MetricAttributes& attributes) {
  for (const auto& attribute : attributes) {
    if (std::ranges::find(common_, attribute.first, &MetricAttributes::value_type::first) == common_.end()) {
      common_.push_back(attribute);
    }
  }
}

void MetricStore::record_request(std::string_view method, std::string_view route, int status,
                                 std::chrono::nanoseconds duration) {
  record(values_.requests,
         {{"http_method", known_method(method)},
          {"http_route", route_template(route)},
          {"http_status_code", std::to_string(status)}},
         duration);
}

void MetricStore::record_execution(std::string_view operation, bool success, std::chrono::nanoseconds duration) {
  record(values_.executions, {{"operation", std::string(operation)}, {"result", success ? "success" : "failure"}},
         duration);
}

void MetricStore::record_filesystem(std::string_view operation, bool success, std::chrono::nanoseconds duration) {
  record(values_.filesystem, {{"operation", std::string(operation)}, {"result", success ? "success" : "failure"}},
         duration);
}

void MetricStore::settle(bool sent) {
  if (!taken_) return;
  if (sent) {
    started_ = taken_->now;
    network_received_ = taken_->network_received;
    network_sent_ = taken_->network_sent;
  } else {
    put_back(values_.requests, taken_->values.requests);
    put_back(values_.executions, taken_->values.executions);
    put_back(values_.filesystem, taken_->values.filesystem);
  }
  taken_.reset();
}

std::string MetricStore::take(const SystemSample& system) {
  settle(false);
  taken_.emplace(Taken{.values = std::exchange(values_, {}),
                       .now = clock_.now(),
                       .network_received = system.network_received,
                       .network_sent = system.network_sent});
  using Kind = otlp::MetricDocument::Kind;
  otlp::MetricDocument out({.scope = kScope,
                            .resource = resource_,
                            .common = common_,
                            .started = started_,
                            .now = taken_->now,
                            .delta = true});
  const auto histogram = [&](std::string_view name, const Series& series) {
    out.begin(Kind::Histogram, name, "ms");
    for (const auto& [attributes, values] : series) out.point(attributes, values);
    out.end();
  };
  const auto gauge = [&](std::string_view name, std::string_view unit, auto value) {
    out.begin(Kind::Gauge, name, unit);
    out.point({}, value);
    out.end();
  };
  const auto pair = [&](Kind kind, std::string_view name, std::string_view unit, std::string_view key,
                        std::pair<const char*, std::uint64_t> first, std::pair<const char*, std::uint64_t> second) {
    out.begin(kind, name, unit);
    for (const auto& [word, value] : {first, second}) out.point({{std::string(key), word}}, value);
    out.end();
  };
  histogram("execd.http.request.duration", taken_->values.requests);
  histogram("execd.execution.duration", taken_->values.executions);
  histogram("execd.filesystem.operations.duration", taken_->values.filesystem);
  gauge("execd.system.process.count", "{process}", system.processes);
  gauge("execd.system.cpu.usage", "%", system.cpu_percent);
  gauge("execd.system.memory.usage_bytes", "By", system.memory_bytes);
  pair(Kind::Sum, "execd.system.network.io.bytes", "By", "direction",
       {"in", grown(network_received_, system.network_received)}, {"out", grown(network_sent_, system.network_sent)});
  pair(Kind::Gauge, "execd.system.network.connections.active", "{connection}", "protocol", {"tcp", system.tcp_sockets},
       {"udp", system.udp_sockets});
  return std::move(out).finish();
}

}  // namespace osb::execd
