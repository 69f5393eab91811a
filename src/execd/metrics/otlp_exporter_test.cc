#include "execd/metrics/otlp_exporter.h"

#include <fstream>

#include <boost/json/parse.hpp>
#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace osb::execd {
namespace {

namespace json = boost::json;

Result<std::optional<OtlpOptions>> options(const Environment& env) {
  return OtlpOptions::from_environment(env, "/nonexistent/hostinfo");
}

TEST(OtlpOptions, IsOffUnlessConfigured) {
  const auto none = options({});
  ASSERT_TRUE(none);
  EXPECT_FALSE(*none);
  EXPECT_FALSE(
      options({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://192.0.2.1"}, {"OTEL_SDK_DISABLED", "true"}})->has_value());
}

TEST(OtlpOptions, TheEndpointBecomesOriginAndTarget) {
  struct {
    const char* why;
    Environment env;
    const char* origin;
    const char* target;
  } rows[] = {
      {"base", {{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://192.0.2.1:4318"}}, "192.0.2.1:4318", "/v1/metrics"},
      {"base with a path", {{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://192.0.2.1:1/a/"}}, "192.0.2.1:1", "/a/v1/metrics"},
      {"for metrics: as it is",
       {{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://[::1]:9/m"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT", "http://192.0.2.1"}},
       "[::1]:9",
       "/m"},
      {"the one name we know",
       {{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318"}},
       "127.0.0.1:4318",
       "/v1/metrics"},
      {"host address", {{"HOST_IP", "192.0.2.7"}}, "192.0.2.7:4318", "/v1/metrics"},
  };
  for (const auto& row : rows) {
    const auto got = options(row.env);
    ASSERT_TRUE(got && *got) << row.why;
    EXPECT_EQ((*got)->collector.origin(), row.origin) << row.why;
    EXPECT_EQ((*got)->collector.url.target, row.target) << row.why;
  }
}

TEST(OtlpOptions, NamesAndTlsAreRefused) {
  for (const char* endpoint : {"https://192.0.2.1:4318", "http://collector:4318", "grpc"}) {
    EXPECT_FALSE(options({{"OTEL_EXPORTER_OTLP_ENDPOINT", endpoint}})) << endpoint;
  }
  EXPECT_FALSE(options({{"HOST_IP", "node-7"}})->has_value()) << "not an address: not meant for us";
}

TEST(OtlpOptions, TheHostsAddressMayStandInAFile) {
  const testing::TempDir dir;
  const std::string path = dir / "hostinfo";
  std::ofstream(path) << "name\n 192.0.2.8 \n";
  const auto got = OtlpOptions::from_environment({}, path);
  ASSERT_TRUE(got && *got);
  EXPECT_EQ((*got)->collector.origin(), "192.0.2.8:4318");
}

TEST(MetricStore, AValueOnABoundBelongsToTheBucketBelow) {
  MetricStore store({{"service.name", "x"}}, {{"sandbox_id", "s\"1"}});
  using std::chrono::milliseconds;
  for (const int ms : {0, 5, 6, 20'000}) store.record_execution("run_command", true, milliseconds(ms));
  store.record_execution("run_command", false, milliseconds(1));
  const json::value value = json::parse(store.take({}));
  const auto& metrics = value.at_pointer("/resourceMetrics/0/scopeMetrics/0/metrics").as_array();
  const auto& points = metrics.at(0).at_pointer("/histogram/dataPoints").as_array();
  ASSERT_EQ(metrics.at(0).at("name"), "execd.execution.duration");
  ASSERT_EQ(points.size(), 2u);
  const auto& success = points.at(1);
  EXPECT_EQ(success.at_pointer("/attributes/1/value/stringValue"), "success");
  EXPECT_EQ(success.at_pointer("/attributes/2/value/stringValue"), "s\"1");
  EXPECT_EQ(success.at("count"), "4");
  const auto& counts = success.at("bucketCounts").as_array();
  ASSERT_EQ(counts.size(), 16u);
  EXPECT_EQ(counts.at(0), "1") << "0 ms";
  EXPECT_EQ(counts.at(1), "1") << "5 ms";
  EXPECT_EQ(counts.at(2), "1") << "6 ms";
  EXPECT_EQ(counts.at(15), "1") << "above all bounds";
}

TEST(MetricStore, ADocumentHasTheValuesSinceTheLastOneThatWasTaken) {
  FakeClock clock;
  MetricStore store({}, {}, clock);
  const auto next = [&](std::uint64_t received) {
    clock.advance(std::chrono::seconds(1));
    return json::parse(store.take({.network_received = received}));
  };
  const auto metric = [](const json::value& document, std::string_view name) {
    for (const auto& each : document.at_pointer("/resourceMetrics/0/scopeMetrics/0/metrics").as_array()) {
      if (std::string_view(each.at("name").as_string()) == name) return each;
    }
    return json::value();
  };
  const auto received = [&](const json::value& document) {
    return metric(document, "execd.system.network.io.bytes").at_pointer("/sum/dataPoints/0");
  };
  store.record_execution("run_command", true, std::chrono::milliseconds(1));
  const auto first = next(100);
  EXPECT_EQ(metric(first, "execd.execution.duration").at_pointer("/histogram/aggregationTemporality"), 1);
  store.settle(true);
  const auto second = next(150);
  EXPECT_TRUE(metric(second, "execd.execution.duration").is_null()) << "nothing ran";
  EXPECT_EQ(received(second).at("asInt"), "50");
  EXPECT_EQ(received(second).at("startTimeUnixNano"), received(first).at("timeUnixNano"));
  store.settle(true);

  store.record_execution("run_command", true, std::chrono::milliseconds(1));
  const auto lost = next(250);
  store.settle(false);
  store.record_execution("run_command", true, std::chrono::milliseconds(9));
  const auto again = next(300);
  EXPECT_EQ(metric(again, "execd.execution.duration").at_pointer("/histogram/dataPoints/0/count"), "2");
  EXPECT_EQ(received(again).at("asInt"), "150");
  EXPECT_EQ(received(again).at("startTimeUnixNano"), received(lost).at("startTimeUnixNano"));
  EXPECT_EQ(metric(json::parse(store.take({})), "execd.execution.duration").at_pointer("/histogram/dataPoints/0/count"),
            "2")
      << "nobody said whether it was taken";
}

TEST(MetricStore, RoutesAreWrittenAsTheContractHasThem) {
  EXPECT_EQ(route_template(""), "unknown");
  EXPECT_EQ(route_template("/ping"), "/ping");
  EXPECT_EQ(route_template("/code/contexts/{context_id}"), "/code/contexts/:context_id");
}

TEST(MetricStore, AnUnknownMethodMakesNoSeriesOfItsOwn) {
  MetricStore store({}, {});
  for (const char* method : {"BREW", "PROPFIND"}) store.record_request(method, "/ping", 405, {});
  const json::value value = json::parse(store.take({}));
  EXPECT_EQ(value.at_pointer("/resourceMetrics/0/scopeMetrics/0/metrics/0/histogram/dataPoints").as_array().size(), 1u);
}

TEST(Telemetry, FileRoutesAreOperations) {
  EXPECT_EQ(filesystem_operation("GET", "/files/info"), "info");
  EXPECT_EQ(filesystem_operation("DELETE", "/directories"), "rmdir");
  EXPECT_EQ(filesystem_operation("POST", "/directories"), "mkdir");
  EXPECT_EQ(filesystem_operation("GET", "/ping"), "");
}

}  // namespace
}  // namespace osb::execd
