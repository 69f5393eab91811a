#include "controller/pool/pool_reconciler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/testing/controller_fixture.h"

namespace osb::controller {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

namespace resources = kubernetes::resources;

class PoolControllerTest : public testing::ControllerFixture {
 protected:
  std::int64_t figure(std::string_view field) {
    return kubernetes::number(*stored(kPools, "p"), {"status", field}, -1);
  }
  std::string claim(const std::string& pod) {
    return std::string(kubernetes::annotation(*stored(resources::kPods, pod), keys::kClaim));
  }
};

TEST_F(PoolControllerTest, ASandboxGetsAWarmPodAndThePoolFillsUpAgain) {
  start();
  pool(2, 10);
  settle();
  ASSERT_THAT(pods(), SizeIs(2));
  EXPECT_EQ(figure("available"), 2);
  const std::size_t before = writes();
  pooled("a");
  settle();
  ASSERT_THAT(held("a"), SizeIs(1));
  const ObjectPtr a = stored(kBatchSandboxes, "a");
  EXPECT_EQ(claim(held("a")[0]), kubernetes::uid_of(*a));
  EXPECT_TRUE(kubernetes::has_finalizer(*a, finalizers::kAllocation));
  EXPECT_EQ(phase("a"), "Succeed");
  EXPECT_THAT(conditions(kBatchSandboxes, "a"), ElementsAre("Ready:PodsReady"));
  EXPECT_EQ(
      kubernetes::annotation(*a, keys::kEndpoints),
      "[\"" + std::string(kubernetes::text(*stored(resources::kPods, held("a")[0]), {"status", "podIP"})) + "\"]");
  EXPECT_THAT(pods(), SizeIs(3));
  EXPECT_EQ(figure("total"), 3);
  EXPECT_EQ(figure("allocated"), 1);
  EXPECT_EQ(figure("available"), 2);
  // Claim, record and status for the sandbox; a pod and statuses for the pool.
  EXPECT_LE(writes() - before, 8u);
  expect_no_double_allocation();
}

TEST_F(PoolControllerTest, ADeletedSandboxGivesItsPodBackAndLeavesNothing) {
  start();
  pool(1, 10);
  pooled("a");
  settle();
  const std::string pod = held("a")[0];
  remove(kBatchSandboxes, "a");
  settle();
  EXPECT_EQ(phase("a"), "gone");
  EXPECT_FALSE(stored(resources::kPods, pod)) << "the default is a new pod for each sandbox";
  EXPECT_THAT(pods(), SizeIs(1));
  EXPECT_EQ(figure("allocated"), 0);
}

TEST_F(PoolControllerTest, ThePoolsMostIsSaidToThoseThatWaitAndServedInOrder) {
  start();
  pool(0, 2);
  settle();
  for (const char* name : {"a", "b", "c", "d"}) {
    pooled(name);
    settle();
  }
  EXPECT_EQ(phase("a"), "Succeed");
  EXPECT_EQ(phase("b"), "Succeed");
  EXPECT_THAT(conditions(kBatchSandboxes, "c"), Contains("PoolAllocationPending:PoolExhausted"));
  remove(kBatchSandboxes, "b");
  settle();
  EXPECT_EQ(phase("c"), "Succeed") << "first come, first served";
  EXPECT_EQ(phase("d"), "Pending");
  EXPECT_THAT(conditions(kBatchSandboxes, "c"), ElementsAre("Ready:PodsReady"));
  patch(kPools, "p", {{"spec", {{"capacitySpec", {{"poolMax", 5}}}}}});
  settle();
  EXPECT_EQ(phase("d"), "Succeed");
  expect_no_double_allocation();
}

TEST_F(PoolControllerTest, AMissingPoolIsNamedAndServesWhenItComes) {
  start();
  pooled("a");
  settle();
  EXPECT_THAT(conditions(kBatchSandboxes, "a"), Contains("PoolAllocationPending:PoolNotFound"));
  pool(0, 2);
  settle();
  EXPECT_EQ(phase("a"), "Succeed");
}

TEST_F(PoolControllerTest, SandboxesOfADeletedPoolCanBeDeleted) {
  start();
  pool(0, 2);
  pooled("a");
  settle();
  ASSERT_EQ(phase("a"), "Succeed");
  remove(kPools, "p");
  settle();
  EXPECT_THAT(conditions(kBatchSandboxes, "a"), Contains("PodFailed:PodLost"));
  remove(kBatchSandboxes, "a");
  settle();
  EXPECT_EQ(phase("a"), "gone");
  EXPECT_THAT(pods(), IsEmpty());
}

TEST_F(PoolControllerTest, ASandboxMovesToAnotherPool) {
  start();
  pool(0, 2);
  make(kPools, {{"metadata", {{"name", "q"}}},
                {"spec",
                 {{"template", pod_template()},
                  {"capacitySpec", {{"bufferMin", 0}, {"bufferMax", 0}, {"poolMin", 0}, {"poolMax", 2}}}}}});
  pooled("a");
  settle();
  const std::string first = held("a").at(0);
  patch(kBatchSandboxes, "a", {{"spec", {{"poolRef", "q"}}}});
  settle();
  EXPECT_FALSE(stored(resources::kPods, first));
  ASSERT_THAT(held("a"), SizeIs(1));
  EXPECT_EQ(kubernetes::label(*stored(resources::kPods, held("a")[0]), keys::kPoolName), "q");
  EXPECT_EQ(phase("a"), "Succeed");
}

TEST_F(PoolControllerTest, AnyPoolMeansOneThatFits) {
  start();
  sandbox("a", {{"poolRef", "*"}, {"template", pod_template("x:1")}});
  settle();
  EXPECT_THAT(conditions(kBatchSandboxes, "a"), Contains("PoolAllocationPending:NoEligiblePool"));
  make(kPools, {{"metadata", {{"name", "other"}}},
                {"spec",
                 {{"template", pod_template("y:1")},
                  {"capacitySpec", {{"bufferMin", 1}, {"bufferMax", 1}, {"poolMin", 0}, {"poolMax", 2}}}}}});
  pool(0, 2);
  settle();
  EXPECT_EQ(kubernetes::text(*stored(kBatchSandboxes, "a"), {"spec", "poolRef"}), "p");
  EXPECT_EQ(phase("a"), "Succeed");
}

TEST_F(PoolControllerTest, NoopAndRestartGiveThePodToTheNext) {
  for (const char* strategy : {"Noop", "Restart"}) {
    SCOPED_TRACE(strategy);
    std::vector<std::string> killed;
    server.exec = [&](std::vector<std::string> command, auto&) -> net::awaitable<int> {
      killed.push_back(command.at(0));
      co_return 0;
    };
    start();
    pool(0, 1, {{"recycleStrategy", {{"type", strategy}}}});
    pooled("a");
    settle();
    const std::string pod = held("a").at(0);
    remove(kBatchSandboxes, "a");
    settle();
    if (std::string(strategy) == "Restart") {
      EXPECT_THAT(killed, ElementsAre("kill"));
      EXPECT_NE(phase("a"), "gone") << "its pod is not clean yet";
      json::object status = stored(resources::kPods, pod)->at("status").as_object();
      status["containerStatuses"].at(0).as_object()["containerID"] = "new";
      set_status(resources::kPods, pod, status);
      settle();
    }
    EXPECT_EQ(phase("a"), "gone");
    pooled("b");
    settle();
    EXPECT_EQ(phase("b"), "Succeed");
    remove(kBatchSandboxes, "b");
    remove(kPools, "p");
    settle();
    stop();
  }
}

TEST_F(PoolControllerTest, AUsedPodIsNeverTakenForAFreshOne) {
  start();
  pool(0, 2);
  pooled("a");
  settle();
  const std::string pod = held("a").at(0);
  stop();
  // An operator takes the finalizer away by hand while no controller runs.
  patch(kBatchSandboxes, "a", {{"metadata", {{"finalizers", nullptr}}}});
  remove(kBatchSandboxes, "a");
  ASSERT_EQ(phase("a"), "gone");
  pooled("b");
  start();
  settle();
  EXPECT_EQ(phase("b"), "Succeed");
  EXPECT_FALSE(stored(resources::kPods, pod));
  EXPECT_NE(held("b").at(0), pod);
}

TEST_F(PoolControllerTest, IdlePodsAreEvictedAndUsedOnesWait) {
  start();
  pool(1, 5);
  pooled("a");
  settle();
  const std::string used = held("a").at(0);
  for (const std::string& each : pods())
    patch(resources::kPods, each, {{"metadata", {{"labels", {{keys::kEvict, ""}}}}}});
  settle();
  EXPECT_TRUE(stored(resources::kPods, used));
  EXPECT_THAT(pods(), SizeIs(2)) << "the idle one was replaced";
  until([&] {
    return std::ranges::any_of(all(resources::kEvents), [](const ObjectPtr& each) {
      return kubernetes::text(*each, {"reason"}) == "PodEvicted";
    });
  });
}

TEST_F(PoolControllerTest, ANewTemplateReplacesIdlePodsStepByStep) {
  start();
  pool(4, 10);
  pooled("a");
  settle();
  const std::string used = held("a").at(0);
  patch(kPools, "p", {{"spec", {{"template", pod_template("x:2")}}}});
  settle();
  int updated = 0;
  for (const std::string& each : pods()) {
    const bool fresh =
        kubernetes::find(*stored(resources::kPods, each), {"spec", "containers"})->at(0).at("image").as_string() ==
        "x:2";
    EXPECT_EQ(fresh, each != used) << each;
    updated += fresh ? 1 : 0;
  }
  EXPECT_EQ(updated, 4);
  EXPECT_EQ(figure("updated"), 4);
  EXPECT_EQ(phase("a"), "Succeed");
}

TEST_F(PoolControllerTest, NonsenseInOneObjectDoesNotHoldUpTheOthers) {
  start();
  pool(1, 5);
  pooled("good");
  settle();
  const std::string pod = held("good").at(0);
  pooled("thief");
  settle();
  // Records edited by hand: another sandbox's pod, a pod that is not there, no list at all.
  patch(kBatchSandboxes, "thief",
        {{"metadata", {{"annotations", {{keys::kAllocated, PodList{{pod, "nowhere"}, "p"}.to_json()}}}}}});
  make(kBatchSandboxes, {{"metadata", {{"name", "broken"}, {"annotations", {{keys::kAllocated, "{\"pods\":7}"}}}}},
                         {"spec", {{"poolRef", "p"}}}});
  make(kPools, {{"metadata", {{"name", "empty"}}}});
  make(kPools, {{"metadata", {{"name", "odd"}}}, {"spec", {{"template", 3}, {"capacitySpec", "much"}}}});
  pooled("next");
  settle();
  EXPECT_EQ(phase("good"), "Succeed");
  EXPECT_EQ(phase("next"), "Succeed");
  EXPECT_EQ(phase("thief"), "Failed");
  EXPECT_EQ(phase("broken"), "Failed");
  EXPECT_NE(held("next").at(0), pod);
  remove(kBatchSandboxes, "thief");
  remove(kBatchSandboxes, "broken");
  settle();
  EXPECT_EQ(phase("thief"), "gone");
  EXPECT_EQ(phase("broken"), "gone");
  EXPECT_TRUE(stored(resources::kPods, pod)) << "a false record takes nothing from others";
  EXPECT_EQ(phase("good"), "Succeed");
}

TEST_F(PoolControllerTest, PodsOfFinishedTasksGoBackEarly) {
  start();
  pool(0, 5, {{"recycleStrategy", {{"type", "Noop"}}}});
  pooled("a", 2,
         {{"taskTemplate", {{"spec", {{"process", {{"command", json::array{"run"}}}}}}}},
          {"taskResourcePolicyWhenCompleted", "Release"}});
  settle();
  ASSERT_THAT(held("a"), SizeIs(2));
  const std::string done = held("a").at(0);
  const std::string address(kubernetes::text(*stored(resources::kPods, done), {"status", "podIP"}));
  executors.tasks[address].at(0).status = api::TaskTerminated{};
  executors.change();
  until([&] { return held("a").size() == 1; });
  settle();
  EXPECT_THAT(executors.tasks[address], IsEmpty());
  EXPECT_EQ(phase("a"), "Succeed");
  EXPECT_EQ(executors.started, 2) << "a pod that went back is not replaced";
}

TEST_F(PoolControllerTest, TwoLeadersAtOnceDoNotGiveAPodTwice) {
  pool(6, 6);
  start();
  settle();
  start();
  settle();
  for (int i = 0; i < 8; ++i) pooled("s" + std::to_string(i));
  for (int round = 0; round < 8; ++round) {
    settle();
    time.advance(61s);
  }
  settle();
  expect_no_double_allocation();
  int served = 0;
  for (int i = 0; i < 8; ++i) served += held("s" + std::to_string(i)).empty() ? 0 : 1;
  EXPECT_GE(served, 5) << "and the pods are used";
}

}  // namespace
}  // namespace osb::controller
