#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <tuple>

#include "http/message.h"
#include "http/router.h"
#include "http/server.h"
#include "server/metrics/create_stage.h"

namespace osb::server {

// Values that are read at the moment of a scrape.
struct MetricsGauges {
  std::map<std::string, std::size_t> sandboxes;  // by state
  int creates_waiting = 0;
  int creates_running = 0;
  bool backend_reachable = false;
};

// Counts what the server does and writes it in Prometheus' text format. Labels come from the server's own tables
// (routes, methods, states), never from a request, so that strangers cannot make it grow. One loop, no locks.
class Metrics {
 public:
  // A response is over. Its route outlives this: routes live in the router.
  void note_request(const http::RequestSummary& summary);
  void note_create_stage(CreateStage stage, std::chrono::nanoseconds time);
  void add_proxy_received(std::uint64_t bytes) { proxy_received_ += bytes; }
  void add_proxy_sent(std::uint64_t bytes) { proxy_sent_ += bytes; }

  std::string render(const MetricsGauges& gauges) const;

 private:
  static constexpr std::array<double, 14> kBuckets = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                                      0.25,  0.5,    1,     2.5,  5,     10,   60};
  struct Histogram {
    std::array<std::uint64_t, kBuckets.size() + 1> counts{};
    double sum = 0;
  };
  // Route by address: one comparison instead of a string's.
  std::map<std::tuple<const char*, std::size_t, int>, std::pair<std::string_view, std::uint64_t>> requests_;
  std::array<Histogram, 3> creates_;
  std::uint64_t proxy_received_ = 0, proxy_sent_ = 0;
};

// GET /metrics; `gauges` is called for each scrape and answers what its sender may see. The arguments outlive the
// router.
void add_metrics_route(http::Router& router, const Metrics& metrics,
                       std::function<MetricsGauges(const http::Request&)> gauges);

// Counts what clients send through the proxy, and both directions of upgraded connections, while it passes. `all`:
// every request of `inner` goes through the proxy; otherwise its path tells.
http::Handler with_proxy_bytes(http::Handler inner, Metrics& metrics, bool all = false);

}  // namespace osb::server
