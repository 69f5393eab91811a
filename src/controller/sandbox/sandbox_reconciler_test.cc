#include "controller/sandbox/sandbox_reconciler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/time.h"
#include "controller/testing/controller_fixture.h"

namespace osb::controller {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace resources = kubernetes::resources;

class SandboxControllerTest : public testing::ControllerFixture {
 protected:
  std::string message(const std::string& name) {
    const ObjectPtr found = stored(kBatchSandboxes, name);
    const json::value* list = kubernetes::find(*found, {"status", "conditions"});
    return list == nullptr || list->as_array().empty() ? "" : std::string(list->at(0).at("message").as_string());
  }
  std::string endpoints(const std::string& name) {
    return std::string(kubernetes::annotation(*stored(kBatchSandboxes, name), keys::kEndpoints));
  }
  std::int64_t counter(const std::string& name, std::string_view field) {
    return kubernetes::number(*stored(kBatchSandboxes, name), {"status", field}, -1);
  }
  std::vector<std::string> events() {
    std::vector<std::string> out;
    for (const ObjectPtr& each : all(resources::kEvents)) out.emplace_back(kubernetes::text(*each, {"reason"}));
    return out;
  }
  std::string in(std::chrono::seconds from_now) {
    return format_timestamp(std::chrono::floor<std::chrono::seconds>(time.clock().now()) + from_now);
  }
};

TEST_F(SandboxControllerTest, PodsComeFromTheTemplateWithTheirPatches) {
  start();
  sandbox(
      "a",
      {{"replicas", 2},
       {"template", pod_template()},
       {"shardPatches",
        json::array{
            json::object(),
            json::object{
                {"spec", {{"containers", json::array{json::object{{"name", "sandbox"}, {"image", "other:2"}}}}}}}}}});
  settle();
  EXPECT_THAT(pods(), ElementsAre("a-0", "a-1"));
  const json::object pod = *stored(resources::kPods, "a-1");
  EXPECT_EQ(kubernetes::label(pod, keys::kReplicaIndex), "1");
  EXPECT_EQ(kubernetes::label(pod, keys::kReplicaOf), "a");
  EXPECT_EQ(kubernetes::label(pod, "app"), "x");
  EXPECT_EQ(kubernetes::find(pod, {"spec", "containers"})->at(0).at("image").as_string(), "other:2");
  EXPECT_EQ(kubernetes::controller_uid(pod), kubernetes::uid_of(*stored(kBatchSandboxes, "a")));
  EXPECT_EQ(phase("a"), "Succeed");
  EXPECT_THAT(conditions(kBatchSandboxes, "a"), ElementsAre("Ready:PodsReady"));
  EXPECT_EQ(counter("a", "replicas"), 2);
  EXPECT_EQ(counter("a", "ready"), 2);
  EXPECT_EQ(counter("a", "observedGeneration"), 1);
  EXPECT_THAT(endpoints("a"), HasSubstr("\"10.0.0."));
  until([&] { return events().size() >= 2; });
  EXPECT_THAT(events(), Contains("SuccessfulCreate"));
}

TEST_F(SandboxControllerTest, ReadinessFollowsThePodByOneEvent) {
  kubelet_runs = false;
  start();
  sandbox("a", {{"replicas", 1}, {"template", pod_template()}});
  settle();
  EXPECT_EQ(phase("a"), "Pending");
  const std::size_t before = writes();
  set_running({"ns", "a-0"});
  settle();
  EXPECT_EQ(phase("a"), "Succeed");
  EXPECT_LE(writes() - before, 3u) << "an endpoint and a status; no clock has moved";
}

TEST_F(SandboxControllerTest, AVanishedPodIsMadeAgainAndALowerNumberRemovesNothing) {
  start();
  sandbox("a", {{"replicas", 2}, {"template", pod_template()}});
  settle();
  const std::string uid(kubernetes::uid_of(*stored(resources::kPods, "a-1")));
  remove(resources::kPods, "a-1");
  settle();
  ASSERT_THAT(pods(), ElementsAre("a-0", "a-1"));
  EXPECT_NE(kubernetes::uid_of(*stored(resources::kPods, "a-1")), uid);
  patch(kBatchSandboxes, "a", {{"spec", {{"replicas", 1}}}});
  settle();
  EXPECT_THAT(pods(), ElementsAre("a-0", "a-1"));
}

TEST_F(SandboxControllerTest, ASandboxEndsAtItsTimeAndARenewalMovesIt) {
  start();
  sandbox("a", {{"template", pod_template()}, {"expireTime", in(60s)}});
  sandbox("b", {{"template", pod_template()}, {"expireTime", in(60s)}});
  sandbox("past", {{"template", pod_template()}, {"expireTime", in(-60s)}});
  settle();
  EXPECT_EQ(phase("past"), "gone");
  patch(kBatchSandboxes, "b", {{"spec", {{"expireTime", in(3600s)}}}});
  settle();
  time.advance(61s);
  until([&] { return phase("a") == "gone"; });
  settle();
  EXPECT_THAT(pods(), ElementsAre("b-0"));
}

TEST_F(SandboxControllerTest, NonsenseHurtsOnlyItself) {
  start();
  const json::object templates = pod_template();
  sandbox("bad-replicas", {{"replicas", "many"}, {"template", templates}});
  sandbox("bad-template", {{"template", "pod"}});
  sandbox("no-template", {{"replicas", 1}});
  sandbox("bad-spec", {{"template", {{"spec", 7}}}});
  sandbox("bad-patch",
          {{"template", templates}, {"shardPatches", json::array{json::object{{"spec", {{"$patch", "x"}}}}}}});
  sandbox("bad-time", {{"template", templates}, {"expireTime", "tomorrow"}});
  sandbox("bad-pool", {{"poolRef", json::array{1}}});
  make(kBatchSandboxes, {{"metadata", {{"name", "bad-record"}, {"annotations", {{keys::kAllocated, "[}"}}}}},
                         {"spec", {{"poolRef", "p"}}}});
  make(kBatchSandboxes, {{"metadata", {{"name", "no-spec"}}}});
  make(kBatchSandboxes, {{"metadata", {{"name", "list-spec"}}}, {"spec", json::array{1, 2}}});
  sandbox("good", {{"template", templates}});
  settle();
  EXPECT_EQ(phase("good"), "Succeed");
  for (const ObjectPtr& each : all(kBatchSandboxes)) {
    const std::string name = kubernetes::key_of(*each).name;
    if (name == "good") continue;
    EXPECT_EQ(phase(name), "Failed") << name;
    EXPECT_THAT(message(name), ::testing::AnyOf(HasSubstr("spec."), HasSubstr("annotation"))) << name;
  }
  patch(kBatchSandboxes, "bad-time", {{"spec", {{"expireTime", nullptr}}}});
  settle();
  EXPECT_EQ(phase("bad-time"), "Succeed") << "it heals with the object";
}

TEST_F(SandboxControllerTest, ARefusedPodIsNamedAndTriedAgain) {
  bool refuse = true;
  server.intercept = [&](const http::Request& request) -> std::optional<http::Response> {
    if (!refuse || request.method != "POST" || !request.target.contains("/pods")) return std::nullopt;
    return kubernetes::testing::status_answer(403, "Forbidden", "pods \"a-0\" is forbidden: exceeded quota");
  };
  start();
  sandbox("a", {{"template", pod_template()}});
  until([&] { return !conditions(kBatchSandboxes, "a").empty(); });
  settle();
  EXPECT_EQ(phase("a"), "Pending");
  EXPECT_THAT(message("a"), HasSubstr("exceeded quota"));
  refuse = false;
  time.advance(1s);
  until([&] { return phase("a") == "Succeed"; });
}

TEST_F(SandboxControllerTest, AForeignPodWithTheNameIsNotTouched) {
  make(resources::kPods, {{"metadata", {{"name", "a-0"}}}, {"spec", json::object()}});
  start();
  sandbox("a", {{"template", pod_template()}});
  settle();
  EXPECT_EQ(phase("a"), "Pending");
  EXPECT_THAT(message("a"), HasSubstr("another owner"));
  EXPECT_TRUE(stored(resources::kPods, "a-0"));
}

TEST_F(SandboxControllerTest, TasksRunOncePerPodAndEndBeforeTheirSandbox) {
  start();
  sandbox("a",
          {{"replicas", 2},
           {"template", pod_template()},
           {"taskTemplate",
            {{"spec",
              {{"process",
                {{"command", json::array{"run"}}, {"env", json::array{json::object{{"name", "A"}, {"value", "1"}}}}}},
               {"timeoutSeconds", 9}}}}},
           {"shardTaskPatches",
            json::array{json::object(),
                        json::object{{"spec", {{"process", {{"args", json::array{"x"}}}}, {"timeoutSeconds", 1}}}}}}});
  settle();
  EXPECT_EQ(executors.started, 2);
  EXPECT_EQ(counter("a", "taskRunning"), 2);
  EXPECT_TRUE(kubernetes::has_finalizer(*stored(kBatchSandboxes, "a"), finalizers::kTasks));
  for (auto& [address, tasks] : executors.tasks) {
    ASSERT_EQ(tasks.size(), 1u);
    EXPECT_EQ(tasks[0].process->timeout_seconds, 9) << "the base value wins";
    EXPECT_EQ(tasks[0].process->args.size(), tasks[0].name == "a-1" ? 1u : 0u);
    api::TaskTerminated ended;
    ended.exit_code = tasks[0].name == "a-1" ? 3 : 0;
    tasks[0].status = ended;
  }
  executors.change();
  until([&] { return counter("a", "taskFailed") == 1; });
  EXPECT_EQ(counter("a", "taskSucceed"), 1);
  settle();
  executors.stubborn = true;
  remove(kBatchSandboxes, "a");
  settle();
  EXPECT_TRUE(stored(kBatchSandboxes, "a")) << "its tasks have not ended";
  executors.stubborn = false;
  executors.change();
  until([&] { return phase("a") == "gone"; });
  settle();
  EXPECT_THAT(pods(), IsEmpty());
  EXPECT_EQ(executors.started, 2);
}

TEST_F(SandboxControllerTest, TasksThatDoNotChangeAreNotAskedAbout) {
  start();
  json::object spec{{"template", pod_template()},
                    {"taskTemplate", {{"spec", {{"process", {{"command", json::array{"run"}}}}}}}}};
  sandbox("a", spec);
  settle();
  EXPECT_EQ(counter("a", "taskRunning"), 1);
  const int before = executors.questions;
  time.advance(1h);
  settle();
  EXPECT_EQ(executors.questions, before);

  executors.versioned = false;
  sandbox("b", spec);
  settle();
  const auto end_all = [&] {
    for (auto& [address, tasks] : executors.tasks) tasks.at(0).status = api::TaskTerminated{};
  };
  end_all();
  EXPECT_TRUE(run(time.wait_alarm(3s)));
  time.advance(3s);
  until([&] { return counter("b", "taskSucceed") == 1; });
  EXPECT_EQ(counter("a", "taskSucceed"), 0) << "its executor has not told a change";
}

TEST_F(SandboxControllerTest, AnExecutorThatComesUpLateGetsItsTask) {
  for (int i = 1; i <= 9; ++i) executors.unreachable.insert("10.0.0." + std::to_string(i));
  start();
  sandbox("a", {{"template", pod_template()},
                {"taskTemplate", {{"spec", {{"process", {{"command", json::array{"run"}}}}}}}}});
  settle();
  EXPECT_EQ(executors.started, 0);
  executors.unreachable.clear();
  time.advance(1s);
  until([&] { return counter("a", "taskRunning") == 1; });
  EXPECT_EQ(executors.started, 1);
}

TEST_F(SandboxControllerTest, APodThatCannotBeReachedHoldsUpNoDeletion) {
  start();
  sandbox("a", {{"template", pod_template()},
                {"taskTemplate", {{"spec", {{"process", {{"command", json::array{"run"}}}}}}}}});
  settle();
  for (const auto& [address, tasks] : executors.tasks) executors.unreachable.insert(address);
  remove(kBatchSandboxes, "a");
  settle();
  EXPECT_EQ(phase("a"), "gone");
}

TEST_F(SandboxControllerTest, AThousandSandboxesAreKnownAndServed) {
  constexpr int kCount = 1000;
  for (int i = 0; i < kCount; ++i) sandbox("s" + std::to_string(i), {{"template", pod_template()}});
  start();
  settle();
  EXPECT_EQ(pods().size(), static_cast<std::size_t>(kCount));
  for (int i = 0; i < kCount; ++i) ASSERT_EQ(phase("s" + std::to_string(i)), "Succeed") << i;
  EXPECT_LE(writes(), kCount * 6u + 10u) << "a pod, an endpoint and a few statuses each";
  stop();
  const std::size_t before = writes();
  start();
  settle();
  EXPECT_EQ(writes(), before) << "a restart finds everything as it should be";
}

}  // namespace
}  // namespace osb::controller
