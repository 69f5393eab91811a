// Controllers that are killed between any two of their writes: a write may have been carried out without the
// controller knowing. The next controller has to bring everything to the same end.
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/testing/controller_fixture.h"

namespace osb::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

namespace resources = kubernetes::resources;

class CrashTest : public testing::ControllerFixture {
 protected:
  // Carries out `writes` more writes of the controller, the last without its answer, then none.
  void arm(int writes) {
    crashed_ = false;
    left_ = writes;
    server.intercept = [this](const http::Request& request) -> std::optional<http::Response> {
      if (!is_write(request.method + " " + request.target)) return std::nullopt;
      if (left_ == 0) {
        crashed_ = true;
        return kubernetes::testing::status_answer(500, "InternalError", "the process is dead");
      }
      --left_;
      return std::nullopt;
    };
    server.loses_answer = [this](const http::Request& request) {
      if (left_ > 0 || !is_write(request.method + " " + request.target)) return false;
      crashed_ = true;
      return true;
    };
  }
  void disarm() {
    server.intercept = {};
    server.loses_answer = {};
  }
  // Runs `change` with a controller that is killed after every possible number of writes, then `check` with its
  // successor. `change` works on the store itself: only the controller writes through the API.
  void for_every_crash(const std::function<void()>& change, const std::function<void()>& check,
                       const std::function<void()>& reset) {
    for (int writes = 0;; ++writes) {
      SCOPED_TRACE("killed after write " + std::to_string(writes));
      ASSERT_LT(writes, 60);
      start();
      settle();
      arm(writes);
      change();
      while (!crashed_ && !quiet()) io.run_one();
      const bool killed = crashed_;
      stop();
      disarm();
      start();
      settle();
      check();
      reset();
      settle();
      stop();
      if (!killed) {
        EXPECT_GE(writes, 3) << "the change needs writes";
        return;
      }
    }
  }
  void delete_in_store(const kubernetes::Resource& resource, const std::string& name) {
    const auto done = server.store().remove(type(resource), {"ns", name}, {});
    EXPECT_TRUE(done) << name;
  }
  // Every pod of the pool is held, or free and unused.
  void expect_no_orphans() {
    std::set<std::string> in_use;
    for (const ObjectPtr& each : all(kBatchSandboxes)) {
      for (const std::string& pod : BatchSandbox::read(each).held()) in_use.insert(pod);
    }
    for (const std::string& pod : pods()) {
      const bool claimed = !kubernetes::annotation(*stored(resources::kPods, pod), keys::kClaim).empty();
      EXPECT_EQ(claimed, in_use.contains(pod)) << pod;
    }
  }

  bool crashed_ = false;
  int left_ = 0;
};

TEST_F(CrashTest, AllocationsAreNeitherDoubleNorLost) {
  pool(2, 10);
  for_every_crash(
      [&] {
        pooled("a", 2);
        pooled("b", 1);
      },
      [&] {
        EXPECT_EQ(phase("a"), "Succeed");
        EXPECT_EQ(phase("b"), "Succeed");
        EXPECT_THAT(held("a"), SizeIs(2));
        EXPECT_THAT(held("b"), SizeIs(1));
        EXPECT_THAT(pods(), SizeIs(5)) << "three in use, two spare";
        expect_no_double_allocation();
        expect_no_orphans();
      },
      [&] {
        delete_in_store(kBatchSandboxes, "a");
        delete_in_store(kBatchSandboxes, "b");
      });
  EXPECT_THAT(all(kBatchSandboxes), IsEmpty());
}

TEST_F(CrashTest, ReturnedPodsAreNeitherLostNorGivenAwayUsed) {
  for (const char* strategy : {"Delete", "Noop"}) {
    SCOPED_TRACE(strategy);
    pool(1, 10, {{"recycleStrategy", {{"type", strategy}}}});
    pooled("a", 2);
    pooled("b", 1);
    for_every_crash([&] { delete_in_store(kBatchSandboxes, "a"); },
                    [&] {
                      EXPECT_EQ(phase("a"), "gone");
                      EXPECT_EQ(phase("b"), "Succeed");
                      EXPECT_THAT(pods(), SizeIs(2)) << "one in use, one spare";
                      expect_no_double_allocation();
                      expect_no_orphans();
                    },
                    [&] { pooled("a", 2); });
    delete_in_store(kBatchSandboxes, "a");
    delete_in_store(kBatchSandboxes, "b");
    delete_in_store(kPools, "p");
    start();
    settle();
    stop();
    EXPECT_THAT(all(kBatchSandboxes), IsEmpty());
    EXPECT_THAT(pods(), IsEmpty());
  }
}

TEST_F(CrashTest, ReplicasAreMadeOnceAndGoWithTheirSandbox) {
  for_every_crash(
      [&] {
        sandbox("t", {{"replicas", 2},
                      {"template", pod_template()},
                      {"taskTemplate", {{"spec", {{"process", {{"command", json::array{"run"}}}}}}}}});
      },
      [&] {
        EXPECT_EQ(phase("t"), "Succeed");
        EXPECT_THAT(pods(), ElementsAre("t-0", "t-1"));
      },
      [&] {
        executors.tasks.clear();
        delete_in_store(kBatchSandboxes, "t");
      });
  EXPECT_THAT(pods(), IsEmpty());
  EXPECT_THAT(all(kBatchSandboxes), IsEmpty());
}

}  // namespace
}  // namespace osb::controller
