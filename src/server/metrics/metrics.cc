#include "server/metrics/metrics.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

namespace osb::server {
namespace {

constexpr std::string_view kMethods[] = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "other"};
constexpr std::string_view kStages[] = {"store", "queue", "backend"};

std::size_t method_index(std::string_view method) {
  const auto found = std::ranges::find(kMethods, method);
  return static_cast<std::size_t>(std::min(found - std::begin(kMethods), std::ssize(kMethods) - 1));
}

void head(std::string& out, std::string_view name, std::string_view type, std::string_view help) {
  fmt::format_to(std::back_inserter(out), "# HELP {0} {2}\n# TYPE {0} {1}\n", name, type, help);
}

}  // namespace

void Metrics::note_request(const http::RequestSummary& summary) {
  const std::string_view route = summary.request.route;
  auto& series = requests_[{route.data(), method_index(summary.request.method), summary.status}];
  series.first = route;
  ++series.second;
  if (route.find("/proxy/{port}") != std::string_view::npos) proxy_sent_ += summary.body_bytes;
}

void Metrics::note_create_stage(CreateStage stage, std::chrono::nanoseconds time) {
  Histogram& histogram = creates_[static_cast<std::size_t>(stage)];
  const double seconds = std::chrono::duration<double>(time).count();
  const auto bucket = std::ranges::lower_bound(kBuckets, seconds) - kBuckets.begin();
  ++histogram.counts[static_cast<std::size_t>(bucket)];
  histogram.sum += seconds;
}

std::string Metrics::render(const MetricsGauges& gauges) const {
  std::string out;
  const auto to = [&out] { return std::back_inserter(out); };

  // The same route with and without /v1 is one series.
  std::map<std::tuple<std::string_view, std::size_t, int>, std::uint64_t> requests;
  for (const auto& [key, series] : requests_) {
    std::string_view route = series.first;
    if (route.starts_with("/v1/")) route.remove_prefix(3);
    requests[{route, std::get<1>(key), std::get<2>(key)}] += series.second;
  }
  head(out, "opensandbox_http_requests_total", "counter", "Requests answered, by route, method and status.");
  for (const auto& [key, count] : requests) {
    const auto& [route, method, status] = key;
    fmt::format_to(to(), "opensandbox_http_requests_total{{route=\"{}\",method=\"{}\",status=\"{}\"}} {}\n",
                   route.empty() ? "none" : route, kMethods[method], status, count);
  }

  head(out, "opensandbox_create_stage_seconds", "histogram", "Time of creates, by stage.");
  for (std::size_t i = 0; i < creates_.size(); ++i) {
    const std::string_view stage = kStages[i];
    std::uint64_t total = 0;
    for (std::size_t b = 0; b < kBuckets.size(); ++b) {
      total += creates_[i].counts[b];
      fmt::format_to(to(), "opensandbox_create_stage_seconds_bucket{{stage=\"{}\",le=\"{}\"}} {}\n", stage, kBuckets[b],
                     total);
    }
    total += creates_[i].counts.back();
    fmt::format_to(to(),
                   "opensandbox_create_stage_seconds_bucket{{stage=\"{0}\",le=\"+Inf\"}} {1}\n"
                   "opensandbox_create_stage_seconds_sum{{stage=\"{0}\"}} {2}\n"
                   "opensandbox_create_stage_seconds_count{{stage=\"{0}\"}} {1}\n",
                   stage, total, creates_[i].sum);
  }

  head(out, "opensandbox_sandboxes", "gauge", "Sandboxes on record, by state.");
  for (const auto& [state, count] : gauges.sandboxes) {
    fmt::format_to(to(), "opensandbox_sandboxes{{state=\"{}\"}} {}\n", state, count);
  }
  head(out, "opensandbox_creates_waiting", "gauge", "Creates that wait for their turn.");
  fmt::format_to(to(), "opensandbox_creates_waiting {}\n", gauges.creates_waiting);
  head(out, "opensandbox_creates_running", "gauge", "Creates that the backend is busy with.");
  fmt::format_to(to(), "opensandbox_creates_running {}\n", gauges.creates_running);
  head(out, "opensandbox_backend_reachable", "gauge", "1 while the backend is heard.");
  fmt::format_to(to(), "opensandbox_backend_reachable {}\n", gauges.backend_reachable ? 1 : 0);
  head(out, "opensandbox_proxy_bytes_total", "counter", "Bytes of bodies and upgraded connections through the proxy.");
  fmt::format_to(to(),
                 "opensandbox_proxy_bytes_total{{direction=\"received\"}} {}\n"
                 "opensandbox_proxy_bytes_total{{direction=\"sent\"}} {}\n",
                 proxy_received_, proxy_sent_);
  return out;
}

void add_metrics_route(http::Router& router, const Metrics& metrics,
                       std::function<MetricsGauges(const http::Request&)> gauges) {
  router.get("/metrics",
             [&metrics, gauges = std::move(gauges)](http::Request& request) -> net::awaitable<http::Response> {
               http::Response response = http::text_response(200, metrics.render(gauges(request)));
               response.headers.set("Content-Type", "text/plain; version=0.0.4; charset=utf-8");
               co_return response;
             });
}

}  // namespace osb::server
