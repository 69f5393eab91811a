#include "execd/daemon/activity.h"

#include <gtest/gtest.h>

namespace osb::execd {
namespace {

using std::chrono::milliseconds;

TEST(Activity, IdleTimeCountsFromTheLastWorkThatWasSeen) {
  FakeClock clock;
  Activity activity(clock);
  bool busy = true;
  activity.add_source([&busy] { return busy; });
  clock.advance(milliseconds(5000));
  auto report = activity.report();
  EXPECT_TRUE(report.active);
  EXPECT_EQ(report.idle, milliseconds(0));
  busy = false;
  clock.advance(milliseconds(3000));
  report = activity.report();
  EXPECT_FALSE(report.active);
  EXPECT_EQ(report.idle, milliseconds(3000));
  EXPECT_EQ(Activity::to_json(report), R"({"active":false,"idle_ms":3000})");
}

}  // namespace
}  // namespace osb::execd
