#include "otlp/collector.h"

#include <map>

#include <gtest/gtest.h>

namespace osb::otlp {
namespace {

Result<std::optional<Collector>> read(std::map<std::string, std::string> variables) {
  return Collector::from_environment([&](const std::string& name) { return variables[name]; }, "/nonexistent/hostinfo");
}

TEST(OtlpCollector, NamesAndTlsArePartOfTheOrigin) {
  const auto got = read({{"OTEL_EXPORTER_OTLP_ENDPOINT", "https://collector.example/a"},
                         {"OTEL_EXPORTER_OTLP_HEADERS", "X-Key=a%20b, broken"},
                         {"OTEL_METRIC_EXPORT_INTERVAL", "250"},
                         {"OTEL_RESOURCE_ATTRIBUTES", "zone=1"}});
  ASSERT_TRUE(got && *got);
  EXPECT_EQ((*got)->origin(), "https://collector.example:443");
  EXPECT_EQ((*got)->url.target, "/a/v1/metrics");
  EXPECT_EQ((*got)->headers.get("X-Key"), "a b");
  EXPECT_EQ((*got)->interval, std::chrono::milliseconds(250));
  EXPECT_EQ((*got)->resource, (Attributes{{"zone", "1"}}));
}

TEST(OtlpCollector, EndpointsThatAreNoUrlsAreRefused) {
  for (const char* endpoint : {"collector", "grpc://collector", "unix:/run/collector"}) {
    EXPECT_FALSE(read({{"OTEL_EXPORTER_OTLP_ENDPOINT", endpoint}})) << endpoint;
    EXPECT_FALSE(read({{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", endpoint}})) << endpoint;
  }
}

}  // namespace
}  // namespace osb::otlp
