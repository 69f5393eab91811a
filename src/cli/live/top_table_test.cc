#include "cli/live/top_table.h"

#include <gtest/gtest.h>

namespace osb::cli {
namespace {

using namespace std::chrono_literals;

TopRow row(std::string id, std::optional<double> cpu) {
  TopRow out;
  out.info.id = std::move(id);
  out.info.status.state = "Running";
  if (cpu)
    out.metrics = opensandbox::Metrics{
        .cpu_count = 1, .cpu_used_pct = *cpu, .mem_total_mib = 64, .mem_used_mib = 2, .timestamp = 0, .json = {}};
  return out;
}

TEST(TopTable, TheBusiestComesFirstAndTheUnknownLast) {
  std::vector<TopRow> rows{row("idle", 0.0), row("silent", std::nullopt), row("busy", 90)};
  sort_rows(rows, TopOrder::Cpu);
  EXPECT_EQ(rows[0].info.id, "busy");
  EXPECT_EQ(rows[1].info.id, "idle");
  EXPECT_EQ(rows[2].info.id, "silent");
}

TEST(TopTable, ItFitsTheScreen) {
  const std::vector<TopRow> rows(50, row("a", 1));
  const auto lines = top_lines(rows, {}, 40, 10, true);
  ASSERT_EQ(lines.size(), 10u);
  for (const std::string& line : lines) EXPECT_LE(line.size(), 40u);
  EXPECT_EQ(lines[0].substr(0, 24), "50 sandboxes, 50 running");
}

TEST(TopTable, EightyColumnsHoldEverythingThatMatters) {
  TopRow named = row("3f2b8c1e-0d4a-4f7e-9b61-5a2c7d8e9f10", 100);
  named.info.metadata = opensandbox::StringMap{std::pair<const std::string, std::string>("name", "web-server")};
  const auto lines = top_lines({named}, {}, 80, 10, false);
  EXPECT_EQ(lines[2], "3f2b8c1e-0d4  Running    100.0%     2.0 MiB       0s         -  web-server");
  EXPECT_NE(top_lines({named}, {}, 200, 10, true)[2].find(named.info.id), std::string::npos);
}

TEST(TopTable, TimesAreShort) {
  EXPECT_EQ(short_duration(-5s), "0s");
  EXPECT_EQ(short_duration(59s), "59s");
  EXPECT_EQ(short_duration(61s), "1m01s");
  EXPECT_EQ(short_duration(3h + 4min), "3h04m");
  EXPECT_EQ(short_duration(50h), "2d02h");
}

TEST(TopTable, JsonHasNullWhereNothingIsKnown) {
  const auto json = top_json({row("silent", std::nullopt)}, {});
  EXPECT_TRUE(json.at(0).at("cpu_used_percentage").is_null());
  EXPECT_TRUE(json.at(0).at("remaining_seconds").is_null());
}

}  // namespace
}  // namespace osb::cli
