#include "server/diagnostics/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace osb::server {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::string_view kId = "3f2b8c1e-0d4a-4f7e-9b61-5a2c7d8e9f10";

Timestamp at(int second) { return Timestamp(std::chrono::seconds(1'760'000'000 + second)); }

SandboxRecord a_record(std::string_view state = api::state::kRunning) {
  auto spec = std::make_shared<api::CreateSandbox>();
  spec->image = api::ImageSpec{"python:3.12", api::ImageLogin{"robot", "hunter2"}};
  spec->entrypoint = {"serve", "--token", "hunter2"};
  spec->resource_limits = api::StringMap{{"cpu", "1500m"}, {"memory", "512Mi"}};
  spec->env = {{"API_KEY", "hunter2"}, {"my_token", "hunter2"}, {"HOME", "/root"}, {"DB", "pg://me:hunter2@db/x"}};
  SandboxRecord record;
  record.id = kId;
  record.spec = spec;
  record.metadata = api::Metadata{{"team", "a"}, {"app", "b"}};
  record.status = {std::string(state), "CONTAINER_RUNNING", "The sandbox is running.", at(2)};
  record.created_at = at(0);
  return record;
}

TEST(Report, InspectShowsWhatTheContractLists) {
  const SandboxRecord record = a_record();
  runtime::Instance instance;
  instance.address = "10.44.0.2";
  runtime::ResourceUse use;
  use.memory_bytes = 3 << 20;
  use.pids = 7;
  const std::string text = inspect_text({record, &instance, use, {}});
  for (const char* part :
       {"ID:           3f2b8c1e-0d4\n", "Image:        python:3.12\n", "Status:       Running\n",
        "Running:      true\n", "Paused:       false\n", "OOM killed:   false\n", "Exit code:    -\n",
        "Created:      2025-10-09T08:53:20Z\n", "Started:      2025-10-09T08:53:22Z\n", "Finished:     -\n",
        "Expires:      never\n", "CPU limit:    1.50 cores\n", "Memory limit: 512 MiB\n", "3 MiB (peak 0 MiB)",
        "PIDs:         7\n", "sandbox:      10.44.0.2\n", "44772/tcp -> 10.44.0.2:44772\n",
        "Labels\n  app=b\n  team=a\n", "  HOME=/root\n"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(Report, InspectGivesNoSecretAway) {
  const SandboxRecord record = a_record();
  const std::string text = inspect_text({record, nullptr, std::nullopt, {}});
  EXPECT_THAT(text, Not(HasSubstr("hunter2")));
  EXPECT_THAT(text, HasSubstr("  API_KEY=***\n"));
  EXPECT_THAT(text, HasSubstr("  my_token=***\n"));
  EXPECT_THAT(text, HasSubstr("44772/tcp -> not bound\n"));
}

TEST(Report, AValueCannotForgeALine) {
  SandboxRecord record = a_record();
  auto spec = std::make_shared<api::CreateSandbox>(*record.spec);
  spec->env = {{"A", "x\nStatus: fine\r\n"}};
  record.spec = spec;
  EXPECT_THAT(inspect_text({record, nullptr, std::nullopt, {}}), HasSubstr("  A=x Status: fine  \n"));
}

TEST(Report, EventsOfAnUneventfulLife) {
  const SandboxRecord record = a_record();
  const std::vector<SandboxEvent> events = {{at(0), "Pending", "CONTAINER_STARTING", ""},
                                            {at(2), "Running", "CONTAINER_RUNNING", ""}};
  const std::string text = events_text({record, nullptr, std::nullopt, events}, 50);
  EXPECT_THAT(text, HasSubstr("Started:      2025-10-09T08:53:22Z\n"));
  EXPECT_THAT(text, HasSubstr("(no notable events)\n"));
  EXPECT_THAT(text, Not(HasSubstr("Event:")));
}

TEST(Report, EventsTellOfMemoryAndExitCode) {
  SandboxRecord record = a_record(api::state::kFailed);
  record.status.reason = "OUT_OF_MEMORY";
  record.status.message = "ran out of memory";
  runtime::Instance instance;
  instance.exit_code = 137;
  instance.ended_at = at(9);
  const DiagnosticSubject subject{record, &instance, std::nullopt, {}};
  const std::string text = events_text(subject, 50);
  EXPECT_THAT(text, HasSubstr("Finished:     2025-10-09T08:53:29Z\n"));
  EXPECT_THAT(text, HasSubstr("Event: killed, out of memory\n"));
  EXPECT_THAT(text, HasSubstr("Event: ended with exit code 137\n"));
  EXPECT_THAT(text, HasSubstr("Event: error: ran out of memory\n"));
  EXPECT_THAT(events_text(subject, 1), Not(HasSubstr("137")));
}

TEST(Report, EventLinesBeginWithTheirTime) {
  const SandboxRecord record = a_record();
  bool truncated = true;
  const std::vector<SandboxEvent> events = {{at(0), "Pending", "CONTAINER_STARTING", "starting"},
                                            {at(2), "Running", "", ""}};
  const DiagnosticSubject subject{record, nullptr, std::nullopt, events};
  EXPECT_EQ(event_lines(subject, 50, truncated),
            "2025-10-09T08:53:20Z Pending CONTAINER_STARTING: starting\n2025-10-09T08:53:22Z Running\n");
  EXPECT_FALSE(truncated);
  EXPECT_EQ(event_lines(subject, 1, truncated), "2025-10-09T08:53:22Z Running\n");
  EXPECT_TRUE(truncated);
}

TEST(Report, AfterARestartTheRecordTellsTheEvents) {
  const SandboxRecord record = a_record();
  bool truncated = false;
  EXPECT_EQ(event_lines({record, nullptr, std::nullopt, {}}, 50, truncated),
            "2025-10-09T08:53:20Z created\n"
            "2025-10-09T08:53:22Z Running CONTAINER_RUNNING: The sandbox is running.\n");
}

TEST(Report, SummaryHasItsThreeParts) {
  const std::string text = summary_text(kId, "I\n", "E", "L\n");
  EXPECT_THAT(text, HasSubstr("Sandbox " + std::string(kId) + "\n"));
  const std::size_t inspect = text.find("\nINSPECT\n\nI\n"), events = text.find("\nEVENTS\n\nE\n"),
                    logs = text.find("\nLOGS\n\nL\n");
  ASSERT_NE(inspect, std::string::npos);
  EXPECT_LT(inspect, events);
  EXPECT_LT(events, logs);
  EXPECT_NE(logs, std::string::npos);
}

TEST(Report, LastLinesAreWholeLines) {
  struct {
    const char* why;
    const char* text;
    std::size_t lines;
    bool clipped;
    const char* want;
    bool cut;
  } rows[] = {
      {"nothing", "", 3, false, "", false},
      {"fewer than asked for", "a\nb\n", 3, false, "a\nb\n", false},
      {"exactly as many", "a\nb\n", 2, false, "a\nb\n", false},
      {"more", "a\nb\nc\n", 2, false, "b\nc\n", true},
      {"an unfinished line counts", "a\nb\nc", 2, false, "b\nc", true},
      {"empty lines count", "\n\n\n", 2, false, "\n\n", true},
      {"only an empty line", "\n", 1, false, "\n", false},
      {"cut in the middle of a line", "alf\nb\nc\n", 5, true, "b\nc\n", true},
      {"one endless line stays", "aaaa", 5, true, "aaaa", true},
  };
  for (const auto& row : rows) {
    bool cut = !row.cut;
    EXPECT_EQ(last_lines(row.text, row.lines, row.clipped, cut), row.want) << row.why;
    EXPECT_EQ(cut, row.cut) << row.why;
  }
}

TEST(Report, LinesBeforeAMomentAreLeftOut) {
  const std::string_view text =
      "2025-01-02T03:04:05.5Z first\n2025-01-02T03:04:06.123456789Z second\n  goes on\n2025-01-02T03:04:07Z third\n";
  const auto since = [&](std::string_view moment) { return lines_since(text, *parse_timestamp(moment)); };
  EXPECT_EQ(since("2025-01-02T03:04:05Z"), text);
  EXPECT_EQ(since("2025-01-02T03:04:06Z"), text.substr(text.find("2025-01-02T03:04:06")));
  EXPECT_EQ(since("2025-01-02T03:04:07Z"), "2025-01-02T03:04:07Z third\n");
  EXPECT_EQ(since("2025-01-02T03:04:08Z"), "");
  EXPECT_EQ(lines_since("no time\n", Timestamp()), "");
  EXPECT_EQ(lines_since("", Timestamp()), "");
}

}  // namespace
}  // namespace osb::server
