#include "controller/sandbox/pause.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/testing/controller_fixture.h"

namespace osb::controller {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace resources = kubernetes::resources;

TEST(PlanPause, TheFlagActsOnlyWhereItCan) {
  struct {
    const char* why;
    json::value pause;
    const char* phase;
    const char* failed;
    int generation, observed;
    PauseStep want;
  } rows[] = {
      {"no flag", nullptr, "Succeed", "", 2, 1, PauseStep::None},
      {"pause", true, "Succeed", "", 2, 1, PauseStep::StartPause},
      {"pause of one that starts waits", true, "Pending", "", 2, 1, PauseStep::None},
      {"a renewal of a paused one changes nothing", true, "Paused", "", 9, 1, PauseStep::None},
      {"resume", false, "Paused", "", 2, 1, PauseStep::StartResume},
      {"a renewal of a resumed one changes nothing", false, "Succeed", "", 9, 1, PauseStep::None},
      {"a failure is not repeated by itself", true, "Succeed", "PauseFailed", 2, 2, PauseStep::None},
      {"but by a new request", true, "Succeed", "PauseFailed", 4, 2, PauseStep::StartPause},
      {"the same for resume", false, "Paused", "ResumeFailed", 2, 2, PauseStep::None},
      {"in the middle", nullptr, "Pausing", "", 2, 2, PauseStep::ContinuePause},
      {"in the other middle", true, "Resuming", "", 2, 2, PauseStep::ContinueResume},
  };
  for (const auto& row : rows) {
    json::array conditions;
    if (*row.failed != 0) conditions.emplace_back(json::object{{"type", row.failed}, {"status", "True"}});
    const BatchSandbox sandbox = BatchSandbox::read(std::make_shared<json::object>(json::object{
        {"metadata", {{"name", "a"}, {"generation", row.generation}}},
        {"spec", {{"pause", row.pause}}},
        {"status", {{"phase", row.phase}, {"pauseObservedGeneration", row.observed}, {"conditions", conditions}}}}));
    EXPECT_EQ(plan_pause(sandbox), row.want) << row.why;
  }
}

class PauseTest : public testing::ControllerFixture {
 protected:
  PauseTest() {
    options.snapshots.registry = "registry.test/snaps";
    options.snapshots.committer_image = "committer:1";
    options.pause.pull_secret = "pull";
  }
  void finish_job(bool good) {
    until([&] { return stored(resources::kJobs, "a-pause-commit") != nullptr; });
    settle();
    set_status(resources::kJobs, "a-pause-commit",
               {{"succeeded", good ? 1 : 0},
                {"conditions", json::array{json::object{{"type", good ? "Complete" : "Failed"},
                                                        {"status", "True"},
                                                        {"reason", "BackoffLimitExceeded"},
                                                        {"message", "no disk"}}}}});
    settle();
  }
  std::string image() {
    return std::string(
        kubernetes::find(*stored(resources::kPods, "a-0"), {"spec", "containers"})->at(0).at("image").as_string());
  }
};

TEST_F(PauseTest, ASandboxIsSavedEndedAndComesBackFromItsImage) {
  start();
  sandbox("a", {{"replicas", 1}, {"template", pod_template()}});
  settle();
  patch(kBatchSandboxes, "a", {{"spec", {{"pause", true}}}});
  settle();
  EXPECT_EQ(phase("a"), "Pausing");
  EXPECT_THAT(pods(), ElementsAre("a-0")) << "until it is saved";
  const json::object job = *stored(resources::kJobs, "a-pause-commit");
  const json::value& pod = *kubernetes::find(job, {"spec", "template", "spec"});
  EXPECT_EQ(pod.at("nodeName").as_string(), "node-1");
  EXPECT_EQ(pod.at("containers").at(0).at("args"),
            (json::array{"a-0", "ns", "sandbox:registry.test/snaps/a-sandbox:snap-gen2"}));
  finish_job(true);
  EXPECT_EQ(phase("a"), "Paused");
  EXPECT_THAT(conditions(kBatchSandboxes, "a"), ElementsAre("Paused:Paused"));
  EXPECT_THAT(pods(), IsEmpty());
  patch(kBatchSandboxes, "a", {{"spec", {{"expireTime", "2999-01-01T00:00:00Z"}}}});
  settle();
  EXPECT_EQ(phase("a"), "Paused") << "a renewal of a paused sandbox keeps its state";
  EXPECT_TRUE(stored(kSnapshots, "a-pause"));
  patch(kBatchSandboxes, "a", {{"spec", {{"pause", false}}}});
  settle();
  EXPECT_EQ(phase("a"), "Succeed");
  EXPECT_EQ(image(), "registry.test/snaps/a-sandbox:snap-gen2");
  EXPECT_EQ(
      kubernetes::find(*stored(resources::kPods, "a-0"), {"spec", "imagePullSecrets"})->at(0).at("name").as_string(),
      "pull");
  EXPECT_FALSE(stored(kSnapshots, "a-pause")) << "a running sandbox needs it no longer";
  EXPECT_FALSE(stored(resources::kJobs, "a-pause-commit"));
}

TEST_F(PauseTest, APooledSandboxTakesItsPodsSpecAlongAndLeavesThePool) {
  start();
  pool(0, 3);
  pooled("a");
  settle();
  const std::string pod = held("a").at(0);
  patch(kBatchSandboxes, "a", {{"spec", {{"pause", true}}}});
  settle();
  finish_job(true);
  EXPECT_EQ(phase("a"), "Paused");
  EXPECT_FALSE(stored(resources::kPods, pod)) << "the pool has recycled it";
  EXPECT_EQ(kubernetes::text(*stored(kBatchSandboxes, "a"), {"spec", "poolRef"}), "");
  EXPECT_FALSE(kubernetes::has_finalizer(*stored(kBatchSandboxes, "a"), finalizers::kAllocation));
  patch(kBatchSandboxes, "a", {{"spec", {{"pause", false}}}});
  settle();
  EXPECT_EQ(phase("a"), "Succeed");
  EXPECT_THAT(image(), HasSubstr("snap-gen"));
  remove(kBatchSandboxes, "a");
  settle();
  EXPECT_EQ(phase("a"), "gone");
}

TEST_F(PauseTest, AFailedPauseSaysWhyAndCanBeTriedAgain) {
  start();
  sandbox("a", {{"replicas", 1}, {"template", pod_template()}});
  settle();
  patch(kBatchSandboxes, "a", {{"spec", {{"pause", true}}}});
  settle();
  finish_job(false);
  EXPECT_EQ(phase("a"), "Succeed") << "it runs on";
  EXPECT_THAT(conditions(kBatchSandboxes, "a"), Contains("PauseFailed:SnapshotFailed"));
  EXPECT_TRUE(stored(resources::kJobs, "a-pause-unpause")) << "its containers are let go";
  patch(kBatchSandboxes, "a", {{"spec", {{"pause", nullptr}}}});
  settle();
  patch(kBatchSandboxes, "a", {{"spec", {{"pause", true}}}});
  settle();
  finish_job(true);
  EXPECT_EQ(phase("a"), "Paused");
}

TEST_F(PauseTest, SandboxesThatCannotBePausedSaySo) {
  options.snapshots.committer_image = "";
  start();
  sandbox("two", {{"replicas", 2}, {"template", pod_template()}, {"pause", true}});
  sandbox("a", {{"replicas", 1}, {"template", pod_template()}, {"pause", true}});
  settle();
  EXPECT_EQ(phase("two"), "Succeed");
  EXPECT_THAT(conditions(kBatchSandboxes, "two"), Contains("PauseFailed:UnsupportedReplicas"));
  EXPECT_EQ(phase("a"), "Succeed");
  EXPECT_THAT(conditions(kBatchSandboxes, "a"), Contains("PauseFailed:SnapshotFailed"));
  EXPECT_THAT(conditions(kSnapshots, "a-pause"), ElementsAre("Failed:CommitterNotConfigured"));
}

TEST_F(PauseTest, AResumeWithoutItsSnapshotStaysPausedAndSaysSo) {
  start();
  sandbox("a", {{"replicas", 1}, {"template", pod_template()}, {"pause", true}});
  settle();
  finish_job(true);
  ASSERT_EQ(phase("a"), "Paused");
  remove(kSnapshots, "a-pause");
  settle();
  patch(kBatchSandboxes, "a", {{"spec", {{"pause", false}}}});
  settle();
  EXPECT_EQ(phase("a"), "Paused");
  EXPECT_THAT(conditions(kBatchSandboxes, "a"), Contains("ResumeFailed:SnapshotNotFound"));
  EXPECT_THAT(pods(), IsEmpty()) << "a sandbox never comes back without its state";
}

}  // namespace
}  // namespace osb::controller
