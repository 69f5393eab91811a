#include "controller/pool/plan_pool.h"

#include <boost/json/array.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/names.h"

namespace osb::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Why = Removal::Why;

class PlanPool : public ::testing::Test {
 protected:
  PlanPool() { set_pool({{"bufferMin", 0}, {"bufferMax", 10}, {"poolMin", 0}, {"poolMax", 20}}); }

  void set_pool(json::object capacity, json::object more = {}) {
    more["capacitySpec"] = std::move(capacity);
    if (!more.contains("template")) more["template"] = json::object{{"spec", json::object()}};
    pool = Pool::read(std::make_shared<json::object>(
        json::object{{"metadata", {{"name", "p"}, {"namespace", "ns"}, {"uid", "pool-uid"}}}, {"spec", more}}));
  }
  PodFacts& pod(const std::string& name, bool ready = true) {
    PodFacts made;
    made.name = name;
    made.uid = "uid-" + name;
    made.created = "2026-01-01T00:00:" + std::to_string(10 + pods.size()) + "Z";
    made.phase = ready ? "Running" : "Pending";
    made.ready = ready;
    made.revision = pool.revision;
    pods.push_back(std::move(made));
    return pods.back();
  }
  void ready_pods(int n) {
    pods.reserve(64);
    for (int i = 0; i < n; ++i) pod("pod" + std::to_string(i));
  }
  BatchSandbox& sandbox(const std::string& name, int replicas, std::vector<std::string> allocated = {},
                        const std::string& annotations_pool = "p") {
    json::object annotations;
    if (!allocated.empty()) annotations[keys::kAllocated] = PodList{allocated, annotations_pool}.to_json();
    sandboxes.reserve(64);
    sandboxes.push_back(BatchSandbox::read(
        std::make_shared<json::object>(json::object{{"metadata",
                                                     {{"name", name},
                                                      {"namespace", "ns"},
                                                      {"uid", "uid-" + name},
                                                      {"annotations", annotations},
                                                      {"finalizers", json::array{finalizers::kAllocation}}}},
                                                    {"spec", {{"replicas", replicas}, {"poolRef", "p"}}}})));
    return sandboxes.back();
  }
  PoolPlan plan(bool gone = false) { return plan_pool({gone ? nullptr : &pool, "p", pods, sandboxes}); }

  static std::vector<std::string> text(const std::vector<Grant>& grants) {
    std::vector<std::string> out;
    for (const Grant& each : grants) {
      std::string line = each.sandbox.name + ":";
      for (const std::string& name : each.pods) line += " " + name;
      out.push_back(line);
    }
    return out;
  }
  static std::vector<std::string> text(const std::vector<Return>& returns) {
    std::vector<Grant> same;
    for (const Return& each : returns) same.push_back({each.sandbox, each.pods});
    return text(same);
  }

  Pool pool;
  std::vector<PodFacts> pods;
  std::vector<BatchSandbox> sandboxes;
};

TEST_F(PlanPool, TheFirstSandboxIsServedFirstAndGetsWhatThereIs) {
  ready_pods(3);
  sandbox("a", 2);
  sandbox("b", 3);
  sandbox("c", 1);
  const PoolPlan made = plan();
  EXPECT_THAT(text(made.grants), ElementsAre("a: pod0 pod1", "b: pod2"));
  ASSERT_EQ(made.waits.size(), 2u);
  EXPECT_EQ(made.waits[0].sandbox.name, "b");
  EXPECT_EQ(made.waits[0].missing, 2);
  EXPECT_EQ(made.waits[1].sandbox.name, "c") << "a small one behind a large one waits";
  EXPECT_EQ(made.allocated, 3);
  EXPECT_EQ(made.available, 0);
}

TEST_F(PlanPool, PodsThatAreNotReadyOrTakenOrEvictedAreNotGiven) {
  pods.reserve(8);
  pod("starting", false);
  pod("evicted").evict = true;
  pod("dying").deleting = true;
  pod("held");
  pod("claimed").claim = "uid-other";
  sandbox("other", 2, {"held", "claimed"});
  sandbox("new", 1);
  const PoolPlan made = plan();
  EXPECT_THAT(made.grants, IsEmpty());
  EXPECT_THAT(made.orphans, IsEmpty());
  EXPECT_EQ(made.allocated, 2);
  EXPECT_EQ(made.removals, (std::vector<Removal>{{"evicted", Why::Evicted}}));
}

TEST_F(PlanPool, AHalfMadeAllocationIsCompletedWithTheSamePod) {
  ready_pods(3);
  pods[2].claim = "uid-a";
  sandbox("a", 1);
  EXPECT_THAT(text(plan().grants), ElementsAre("a: pod2"));
}

TEST_F(PlanPool, AClaimOfASandboxThatIsGoneOrHasEnoughIsAnOrphan) {
  ready_pods(3);
  pods[0].claim = "uid-gone";
  pods[1].claim = "uid-a";
  sandbox("a", 1, {"pod2"});
  const PoolPlan made = plan();
  EXPECT_THAT(made.orphans, ElementsAre("pod0", "pod1"));
  EXPECT_THAT(made.grants, IsEmpty());
}

TEST_F(PlanPool, APodListedByTwoSandboxesBelongsToItsClaimElseToTheFirst) {
  ready_pods(2);
  pods[1].claim = "uid-b";
  sandbox("a", 2, {"pod0", "pod1"});
  BatchSandbox& second = sandbox("b", 2, {"pod0", "pod1"});
  second.deleting = true;
  const PoolPlan made = plan();
  ASSERT_THAT(text(made.returns), ElementsAre("b: pod0 pod1"));
  EXPECT_THAT(made.returns[0].recycle, ElementsAre("pod1")) << "pod0 is in use by the other one";
  EXPECT_EQ(made.allocated, 2) << "neither is free";
  EXPECT_THAT(made.grants, IsEmpty());
}

TEST_F(PlanPool, AnUnreadableRecordKeepsTheSandboxesPodsAndOnlyItWaits) {
  ready_pods(2);
  pods[0].claim = "uid-a";
  sandbox("a", 1).problems.push_back("annotation: nonsense");
  sandbox("b", 1);
  const PoolPlan made = plan();
  EXPECT_THAT(made.orphans, IsEmpty());
  EXPECT_THAT(text(made.grants), ElementsAre("b: pod1"));
}

TEST_F(PlanPool, ReleasedPodsGoBackAndAreNotReplaced) {
  ready_pods(3);
  BatchSandbox& a = sandbox("a", 2, {"pod0", "pod1"});
  a.release.pods = {"pod1", "pod2"};
  PoolPlan made = plan();
  EXPECT_THAT(text(made.returns), ElementsAre("a: pod1")) << "pod2 is not its to give back";
  EXPECT_THAT(made.grants, IsEmpty());
  a.released.pods = {"pod1"};
  made = plan();
  EXPECT_THAT(made.returns, IsEmpty());
  EXPECT_THAT(made.grants, IsEmpty());
  EXPECT_EQ(made.available, 2) << "pod1 is free again";
}

TEST_F(PlanPool, ADeletedSandboxGivesEverythingBackAfterItsTasksHaveEnded) {
  ready_pods(2);
  BatchSandbox& a = sandbox("a", 2, {"pod0", "vanished"});
  a.deleting = true;
  EXPECT_THAT(text(plan().returns), ElementsAre("a: pod0 vanished"));
  json::object with_tasks = *a.object;
  with_tasks.at("metadata").as_object()["finalizers"].as_array().emplace_back(finalizers::kTasks);
  a.object = std::make_shared<json::object>(with_tasks);
  EXPECT_THAT(plan().returns, IsEmpty());
}

TEST_F(PlanPool, SandboxesOfAPoolThatIsGoneGiveBackAndGetNothing) {
  sandbox("a", 1, {"pod0"}).deleting = true;
  sandbox("b", 1);
  sandbox("c", 1).deleting = true;
  const PoolPlan made = plan(true);
  EXPECT_THAT(text(made.returns), ElementsAre("a: pod0", "c:")) << "c only has to lose its finalizer";
  EXPECT_THAT(made.grants, IsEmpty());
  ASSERT_EQ(made.waits.size(), 1u);
  EXPECT_EQ(made.creates, 0);
}

TEST_F(PlanPool, ASandboxThatMovedToAnotherPoolGivesBackFirst) {
  ready_pods(2);
  BatchSandbox& leaving = sandbox("a", 1, {"pod0"});
  leaving.pool = "other";
  EXPECT_THAT(text(plan().returns), ElementsAre("a: pod0"));
  sandboxes.clear();
  BatchSandbox& coming = sandbox("b", 1, {"far"}, "other");
  EXPECT_THAT(plan().grants, IsEmpty()) << "it still holds a pod of the other pool";
  coming.released.pods = {"far"};
  EXPECT_THAT(text(plan().grants), ElementsAre("b: pod0"));
}

TEST_F(PlanPool, TheBufferIsFilledInStepsAndEmptied) {
  struct {
    const char* why;
    int min, max, pool_min, pool_max, ready, starting, creates, removals;
  } rows[] = {
      {"a quarter of the pods may start at once", 8, 8, 0, 20, 0, 0, 2, 0},
      {"those that start count", 8, 8, 0, 20, 0, 2, 0, 0},
      {"inside the buffer nothing happens", 2, 6, 0, 20, 4, 0, 0, 0},
      {"above it the middle is the goal", 2, 4, 0, 20, 6, 0, 0, 3},
      {"the pool's least", 0, 0, 4, 20, 3, 0, 1, 0},
      {"the pool's most", 8, 8, 0, 5, 4, 0, 1, 0},
      {"a lower most removes nothing", 6, 8, 0, 2, 7, 0, 0, 0},
      {"nonsense: least above most", 6, 2, 0, 20, 4, 0, 0, 0},
  };
  for (const auto& row : rows) {
    pods.clear();
    set_pool({{"bufferMin", row.min}, {"bufferMax", row.max}, {"poolMin", row.pool_min}, {"poolMax", row.pool_max}});
    ready_pods(row.ready);
    for (int i = 0; i < row.starting; ++i) pod("s" + std::to_string(i), false);
    const PoolPlan made = plan();
    EXPECT_EQ(made.creates, row.creates) << row.why;
    EXPECT_EQ(static_cast<int>(made.removals.size()), row.removals) << row.why;
    for (const Removal& each : made.removals) EXPECT_EQ(each.why, Why::Surplus) << row.why;
  }
}

TEST_F(PlanPool, WaitingSandboxesMakeThePoolGrow) {
  set_pool({{"bufferMin", 1}, {"bufferMax", 1}, {"poolMin", 0}, {"poolMax", 20}},
           {{"scaleStrategy", {{"maxUnavailable", "100%"}}}});
  sandbox("a", 5);
  EXPECT_EQ(plan().creates, 6);
}

TEST_F(PlanPool, IdlePodsOfAnOldTemplateAreReplacedWithinTheBudget) {
  set_pool({{"bufferMin", 8}, {"bufferMax", 8}, {"poolMin", 0}, {"poolMax", 20}});
  ready_pods(8);
  for (PodFacts& each : pods) each.revision = "old";
  pods[7].ready = false;
  pods[7].phase = "Pending";
  sandbox("a", 1, {"pod0"});
  PoolPlan made = plan();
  EXPECT_EQ(made.removals, (std::vector<Removal>{{"pod7", Why::Outdated}, {"pod6", Why::Outdated}}))
      << "the one that is not ready, and one of the budget of two that it leaves; never the allocated one";
  EXPECT_EQ(made.updated, 0);
}

TEST_F(PlanPool, FinishedIdlePodsAreReplaced) {
  set_pool({{"bufferMin", 2}, {"bufferMax", 2}, {"poolMin", 0}, {"poolMax", 20}});
  ready_pods(2);
  pods[0].phase = "Failed";
  pods[0].ready = false;
  const PoolPlan made = plan();
  EXPECT_EQ(made.removals, (std::vector<Removal>{{"pod0", Why::Finished}}));
  EXPECT_EQ(made.creates, 1);
}

TEST_F(PlanPool, APoolOfNonsenseServesTheSandboxesThatItCanAndCreatesNothing) {
  set_pool({{"bufferMin", "many"}, {"bufferMax", 8}, {"poolMin", 3}, {"poolMax", -1}});
  EXPECT_EQ(pool.problems.size(), 2u);
  ready_pods(1);
  sandbox("a", 2);
  const PoolPlan made = plan();
  EXPECT_THAT(text(made.grants), ElementsAre("a: pod0"));
  EXPECT_EQ(made.creates, 0);
  EXPECT_THAT(made.removals, IsEmpty());
}

}  // namespace
}  // namespace osb::controller
