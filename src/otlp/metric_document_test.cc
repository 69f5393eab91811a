#include "otlp/metric_document.h"

#include <array>

#include <gtest/gtest.h>

namespace osb::otlp {
namespace {

using Kind = MetricDocument::Kind;

constexpr std::array<double, 2> kBounds = {1, 10};

// The list of metrics and the end of the document.
std::string metrics_of(MetricDocument&& document) {
  const std::string text = std::move(document).finish();
  const std::string_view begin = R"("metrics":)";
  return text.substr(text.find(begin) + begin.size());
}

TEST(MetricDocument, HasEveryKindOfMetricWithItsAttributes) {
  const Attributes resource = {{"service.name", "x"}}, common = {{"sandbox_id", "s\"1"}};
  MetricDocument document({.scope = "opensandbox/x", .resource = resource, .common = common, .started = {}, .now = {}});
  Histogram histogram(kBounds);
  for (const double value : {1.0, 2.0, 11.0}) histogram.add(value);
  document.begin(Kind::Histogram, "h", "s");
  document.point({{"k", "v"}}, histogram);
  document.end();
  document.begin(Kind::Gauge, "empty", "s");
  document.end();
  document.begin(Kind::Sum, "n", "{x}");
  document.point({}, std::uint64_t{7});
  document.point({}, 0.5);
  document.end();
  const std::string common_json = R"({"key":"sandbox_id","value":{"stringValue":"s\"1"}})";
  const std::string times = R"("startTimeUnixNano":"0","timeUnixNano":"0")";
  EXPECT_EQ(metrics_of(std::move(document)),
            R"([{"name":"h","unit":"s","histogram":{"aggregationTemporality":2,"dataPoints":[)"
            R"({"attributes":[{"key":"k","value":{"stringValue":"v"}},)" +
                common_json + "]," + times +
                R"(,"count":"3","sum":14,"min":1,"max":11,"bucketCounts":["1","1","1"],"explicitBounds":[1,10]}]}},)"
                R"({"name":"n","unit":"{x}","sum":{"isMonotonic":true,"aggregationTemporality":2,"dataPoints":[)"
                R"({"attributes":[)" +
                common_json + "]," + times + R"(,"asInt":"7"},{"attributes":[)" + common_json + "]," + times +
                R"(,"asDouble":0.5}]}}]}]}]})")
      << "a bound belongs to the bucket below it, and a metric without points is left out";
}

TEST(MetricDocument, WithoutAttributesIsValidToo) {
  MetricDocument document({.scope = "x", .resource = {}, .common = {}, .started = {}, .now = {}});
  document.begin(Kind::Gauge, "g", "By");
  document.point({}, std::uint64_t{1});
  document.end();
  EXPECT_EQ(metrics_of(std::move(document)),
            R"([{"name":"g","unit":"By","gauge":{"dataPoints":[{"attributes":[],"startTimeUnixNano":"0",)"
            R"("timeUnixNano":"0","asInt":"1"}]}}]}]}]})");
}

TEST(MetricDocument, SaysThatItCountsFromTheDocumentBefore) {
  MetricDocument document({.scope = "x", .resource = {}, .common = {}, .started = {}, .now = {}, .delta = true});
  document.begin(Kind::Sum, "n", "By");
  document.point({}, std::uint64_t{1});
  document.end();
  EXPECT_NE(metrics_of(std::move(document)).find(R"("aggregationTemporality":1,)"), std::string::npos);
}

TEST(Histogram, MergedOnesHaveTheValuesOfBoth) {
  Histogram one(kBounds), other(kBounds), none(kBounds);
  for (const double value : {5.0, 20.0}) one.add(value);
  other.add(1);
  none.merge(one);
  none.merge(Histogram(kBounds));
  other.merge(none);
  MetricDocument document({.scope = "x", .resource = {}, .common = {}, .started = {}, .now = {}});
  document.begin(Kind::Histogram, "h", "s");
  document.point({}, other);
  document.end();
  EXPECT_NE(
      metrics_of(std::move(document)).find(R"("count":"3","sum":26,"min":1,"max":20,"bucketCounts":["1","1","1"])"),
      std::string::npos);
}

}  // namespace
}  // namespace osb::otlp
