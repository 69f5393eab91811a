#include "server/diagnostics/event_history.h"

#include <gtest/gtest.h>

namespace osb::server {
namespace {

Timestamp at(int second) { return Timestamp(std::chrono::seconds(second)); }

TEST(EventHistory, TransitionsStayInTheirOrder) {
  EventHistory history;
  history.note("a", at(1), {"Pending", "CONTAINER_STARTING", "waiting", {}});
  history.note("b", at(2), {"Failed", "X", "", {}});
  history.note("a", at(3), {"Running", "CONTAINER_RUNNING", "runs", {}});
  const std::vector<SandboxEvent> want = {{at(1), "Pending", "CONTAINER_STARTING", "waiting"},
                                          {at(3), "Running", "CONTAINER_RUNNING", "runs"}};
  EXPECT_EQ(history.of("a"), want);
  EXPECT_EQ(history.of("b").size(), 1u);
  EXPECT_TRUE(history.of("c").empty());
}

TEST(EventHistory, ProgressIsOneEventWithItsLatestMessage) {
  EventHistory history;
  history.note("a", at(1), {"Pending", "CONTAINER_STARTING", "pulling 1%", {}});
  history.note("a", at(2), {"Pending", "CONTAINER_STARTING", "pulling 99%", {}});
  const std::vector<SandboxEvent> want = {{at(1), "Pending", "CONTAINER_STARTING", "pulling 99%"}};
  EXPECT_EQ(history.of("a"), want);
}

TEST(EventHistory, OnlyTheLastAreKept) {
  EventHistory history(3);
  for (int i = 0; i < 10; ++i) history.note("a", at(i), {i % 2 ? "Paused" : "Running", "", "", {}});
  const auto events = history.of("a");
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events.front().at, at(7));
  EXPECT_EQ(events.back().at, at(9));
}

TEST(EventHistory, AForgottenSandboxHasNoHistory) {
  EventHistory history;
  history.note("a", at(1), {"Running", "", "", {}});
  history.forget("a");
  history.forget("a");
  EXPECT_TRUE(history.of("a").empty());
}

}  // namespace
}  // namespace osb::server
