#include "server/metrics/metrics.h"

#include <gtest/gtest.h>

namespace osb::server {
namespace {

using namespace std::chrono_literals;

bool has(const std::string& text, std::string_view line) {
  return ("\n" + text).find("\n" + std::string(line) + "\n") != std::string::npos;
}

void answer(Metrics& metrics, std::string_view route, std::string method, int status, std::uint64_t bytes = 0) {
  http::Request request;
  request.method = std::move(method);
  request.route = route;
  metrics.note_request({request, status, bytes, 1ms, false});
}

TEST(Metrics, RequestsAreCountedByRouteAndTheVersionPrefixMakesNoDifference) {
  Metrics metrics;
  answer(metrics, "/v1/sandboxes/{id}", "GET", 200);
  answer(metrics, "/sandboxes/{id}", "GET", 200);
  answer(metrics, "/sandboxes/{id}", "GET", 404);
  const std::string text = metrics.render({});
  EXPECT_TRUE(has(text, R"(opensandbox_http_requests_total{route="/sandboxes/{id}",method="GET",status="200"} 2)"))
      << text;
  EXPECT_TRUE(has(text, R"(opensandbox_http_requests_total{route="/sandboxes/{id}",method="GET",status="404"} 1)"));
}

TEST(Metrics, RequestsOfStrangersMakeNoNewSeries) {
  Metrics metrics;
  for (const char* method : {"BREW", "X\"} 1", "PROPFIND"}) answer(metrics, "", method, 404);
  EXPECT_TRUE(
      has(metrics.render({}), R"(opensandbox_http_requests_total{route="none",method="other",status="404"} 3)"));
}

TEST(Metrics, StagesOfCreatesAreCumulativeHistograms) {
  Metrics metrics;
  metrics.note_create_stage(CreateStage::Backend, 4ms);
  metrics.note_create_stage(CreateStage::Backend, 40ms);
  metrics.note_create_stage(CreateStage::Backend, 2min);
  const std::string text = metrics.render({});
  EXPECT_TRUE(has(text, R"(opensandbox_create_stage_seconds_bucket{stage="backend",le="0.0025"} 0)")) << text;
  EXPECT_TRUE(has(text, R"(opensandbox_create_stage_seconds_bucket{stage="backend",le="0.005"} 1)"));
  EXPECT_TRUE(has(text, R"(opensandbox_create_stage_seconds_bucket{stage="backend",le="60"} 2)"));
  EXPECT_TRUE(has(text, R"(opensandbox_create_stage_seconds_bucket{stage="backend",le="+Inf"} 3)"));
  EXPECT_TRUE(has(text, R"(opensandbox_create_stage_seconds_count{stage="backend"} 3)"));
  EXPECT_TRUE(has(text, R"(opensandbox_create_stage_seconds_count{stage="queue"} 0)"));
}

TEST(Metrics, GaugesAreWhatTheyAreAtTheScrape) {
  const std::string text = Metrics().render({{{"Running", 7}, {"Paused", 1}}, 3, 2, true});
  EXPECT_TRUE(has(text, R"(opensandbox_sandboxes{state="Running"} 7)")) << text;
  EXPECT_TRUE(has(text, "opensandbox_creates_waiting 3"));
  EXPECT_TRUE(has(text, "opensandbox_creates_running 2"));
  EXPECT_TRUE(has(text, "opensandbox_backend_reachable 1"));
}

TEST(Metrics, OnlyTheProxyCountsAsTheProxy) {
  Metrics metrics;
  answer(metrics, "/v1/sandboxes/{id}/proxy/{port}/{rest*}", "GET", 200, 100);
  answer(metrics, "/v1/sandboxes", "GET", 200, 1000);
  metrics.add_proxy_received(5);
  const std::string text = metrics.render({});
  EXPECT_TRUE(has(text, R"(opensandbox_proxy_bytes_total{direction="sent"} 100)")) << text;
  EXPECT_TRUE(has(text, R"(opensandbox_proxy_bytes_total{direction="received"} 5)"));
}

}  // namespace
}  // namespace osb::server
