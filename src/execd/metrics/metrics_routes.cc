#include "execd/metrics/metrics_routes.h"

#include "async/race.h"
#include "base/clock.h"
#include "execd/metrics/system_metrics.h"

namespace osb::execd {
namespace {

using namespace race;

constexpr std::chrono::seconds kInterval{1};

net::awaitable<Result<void>> send_samples(MetricsContext& context, http::BodyWriter& out) {
  const sys::CgroupStats& stats = context.sampler().stats;
  sys::CpuMeter meter(stats);
  auto due = system_clock().steady_now();
  for (;;) {
    const std::string line = sample_metrics(stats, meter).to_json() + "\n\n";
    if (auto sent = co_await out.write(line); !sent) co_return sent;
    const auto now = system_clock().steady_now();
    due = std::max(due + kInterval, now);  // a reader that was slow gets no burst
    if (!co_await sleep_for(due - now)) co_return Result<void>();
  }
}

net::awaitable<Result<void>> watch(MetricsContext& context, http::BodyWriter& out) {
  if (context.closing.is_set()) co_return Result<void>();
  auto first = co_await (send_samples(context, out) || context.closing.wait() || out.peer_closed());
  if (first.index() == 0) co_return std::get<0>(std::move(first));
  co_return Result<void>();
}

}  // namespace

void add_metrics_routes(http::Router& router, MetricsContext& context) {
  router.get("/metrics", [&context](http::Request&) -> net::awaitable<http::Response> {
    auto& sampler = context.sampler();
    co_return http::json_response(200, sample_metrics(sampler.stats, sampler.meter).to_json());
  });
  router.get("/metrics/watch", [&context](http::Request&) -> net::awaitable<http::Response> {
    co_return http::event_stream([&context](http::BodyWriter& out) { return watch(context, out); });
  });
}

}  // namespace osb::execd
