#include "controller/pool/restart.h"

#include <boost/json/array.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/names.h"

namespace osb::controller {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using Do = RestartStep::Do;

PodFacts pod(std::vector<std::pair<std::string, std::string>> containers, const std::string& record = "") {
  json::array statuses;
  for (const auto& [name, id] : containers) {
    statuses.emplace_back(json::object{{"name", name}, {"containerID", id}, {"state", {{"running", json::object()}}}});
  }
  json::object annotations{{keys::kClaim, "use-1"}};
  if (!record.empty()) annotations[keys::kRestartRecord] = record;
  return PodFacts::read(std::make_shared<json::object>(
      json::object{{"metadata", {{"name", "p"}, {"annotations", annotations}}},
                   {"status", {{"phase", "Running"}, {"containerStatuses", statuses}}}}));
}

TEST(Restart, ContainersAreKilledOnceAndTheirSuccessorsEndTheRestart) {
  RestartConfig config;
  config.blacklist = {"egress"};
  const Timestamp now{1'700'000'000s};
  const RestartStep first = plan_restart(pod({{"main", "1"}, {"egress", "2"}}), config, now);
  ASSERT_EQ(first.what, Do::Kill);
  EXPECT_THAT(first.containers, ElementsAre("main"));
  const std::string record = first.record.to_json();
  EXPECT_EQ(plan_restart(pod({{"main", "1"}}, record), config, now + 29s).what, Do::Wait);
  EXPECT_EQ(plan_restart(pod({{"main", "1"}}, record), config, now + 29s).wait, 1s);
  EXPECT_EQ(plan_restart(pod({}, record), config, now + 1s).what, Do::Wait) << "it is between its two lives";
  EXPECT_EQ(plan_restart(pod({{"main", "9"}}, record), config, now + 1s).what, Do::Done);
}

TEST(Restart, TriesAgainAndThenGivesUp) {
  const RestartConfig config = RestartConfig::parse(R"({"retryInterval":"10s","maxRetries":1,"restartCommand":["x"]})");
  EXPECT_THAT(config.command, ElementsAre("x"));
  const Timestamp now{1'700'000'000s};
  const auto first = plan_restart(pod({{"main", "1"}}), config, now);
  const auto second = plan_restart(pod({{"main", "1"}}, first.record.to_json()), config, now + 10s);
  ASSERT_EQ(second.what, Do::Kill);
  EXPECT_EQ(second.record.retry_count, 1);
  EXPECT_EQ(plan_restart(pod({{"main", "1"}}, second.record.to_json()), config, now + 20s).what, Do::Delete);
}

TEST(Restart, APodThatDoesNotRunIsDeleted) {
  PodFacts dead = pod({});
  dead.phase = "Failed";
  EXPECT_EQ(plan_restart(dead, {}, Timestamp{}).what, Do::Delete);
}

TEST(Restart, NonsenseInAnnotationsMeansTheDefaults) {
  for (const char* text :
       {"", "[]", "{", R"({"retryInterval":-1,"maxRetries":-5,"restartCommand":"x","blacklist":7})"}) {
    const RestartConfig config = RestartConfig::parse(text);
    EXPECT_EQ(config.retry_interval, 30s) << text;
    EXPECT_EQ(config.max_retries, 3) << text;
    EXPECT_THAT(config.command, ElementsAre("kill", "1")) << text;
  }
  EXPECT_EQ(plan_restart(pod({{"main", "1"}}, "no json"), {}, Timestamp{}).what, Do::Kill);
  EXPECT_EQ(
      plan_restart(pod({{"main", "1"}}, R"({"id":"an older use","containers":{"main":"0"}})"), {}, Timestamp{}).what,
      Do::Kill);
}

}  // namespace
}  // namespace osb::controller
