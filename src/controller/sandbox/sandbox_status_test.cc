#include "controller/sandbox/sandbox_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/names.h"

namespace osb::controller {
namespace {

BatchSandbox sandbox(json::object status = {}, json::object spec = {{"replicas", 2}}) {
  json::object object{{"metadata", {{"name", "a"}, {"namespace", "ns"}, {"generation", 3}}}, {"spec", std::move(spec)}};
  if (!status.empty()) object["status"] = std::move(status);
  return BatchSandbox::read(std::make_shared<json::object>(std::move(object)));
}

PodFacts pod(const std::string& name, bool ready, const std::string& failure = "") {
  PodFacts out;
  out.name = name;
  out.ready = ready;
  out.ip = ready ? "10.0.0.1" : "";
  out.failure = failure;
  return out;
}

std::vector<std::string> conditions_of(const json::object& status) {
  std::vector<std::string> out;
  for (const json::value& each : status.at("conditions").as_array()) {
    out.push_back(std::string(each.at("type").as_string()) + ":" + std::string(each.at("reason").as_string()));
  }
  return out;
}

TEST(SandboxStatus, PhaseAndConditionsFollowThePods) {
  const PoolWaits::Reason wait{"PoolExhausted", "full"};
  struct {
    const char* why;
    const char* phase_before;
    SandboxView view;
    const char* phase;
    std::vector<std::string> conditions;
  } rows[] = {
      {"nothing yet", "", {}, "Pending", {"Progressing:Creating"}},
      {"one ready pod is enough", "", {.pods = {pod("a-0", true), pod("a-1", false)}}, "Succeed", {"Ready:PodsReady"}},
      {"a pod that cannot run",
       "",
       {.pods = {pod("a-0", true), pod("a-1", false, "ImagePullBackOff")}},
       "Failed",
       {"PodFailed:ImagePullBackOff"}},
      {"a failure that has healed", "Failed", {.pods = {pod("a-0", true)}}, "Succeed", {"Ready:PodsReady"}},
      {"a paused one has no pods", "Paused", {}, "Paused", {"Paused:Paused"}},
      {"a pausing one is left alone",
       "Pausing",
       {.pods = {pod("a-0", true)}},
       "Pausing",
       {"Progressing:PauseInProgress"}},
      {"resuming goes on", "Resuming", {.pods = {pod("a-0", false)}}, "Resuming", {"Progressing:ResumeInProgress"}},
      {"resumed", "Resuming", {.pods = {pod("a-0", true)}}, "Succeed", {"Ready:PodsReady"}},
      {"resuming failed",
       "Resuming",
       {.pods = {pod("a-0", false, "CrashLoopBackOff")}},
       "Failed",
       {"PodFailed:CrashLoopBackOff", "ResumeFailed:CrashLoopBackOff"}},
      {"waits for its pool",
       "",
       {.wait = &wait},
       "Pending",
       {"Progressing:Creating", "PoolAllocationPending:PoolExhausted"}},
      {"a pod of the pool is gone", "Succeed", {.lost = 1}, "Failed", {"PodFailed:PodLost"}},
      {"a template that the server refuses",
       "",
       {.create_failed = Error(Code::Unprocessable, "spec.containers: Required value")},
       "Failed",
       {"PodFailed:InvalidTemplate"}},
      {"a quota heals",
       "",
       {.create_failed = Error(Code::Forbidden, "exceeded quota")},
       "Pending",
       {"Progressing:Creating"}},
  };
  for (auto& row : rows) {
    const BatchSandbox from = *row.phase_before == 0 ? sandbox() : sandbox({{"phase", row.phase_before}});
    const json::object status = next_status(from, row.view);
    EXPECT_EQ(status.at("phase").as_string(), row.phase) << row.why;
    EXPECT_EQ(conditions_of(status), row.conditions) << row.why;
  }
}

TEST(SandboxStatus, MessagesNameTheCause) {
  SandboxView view;
  view.pods = {pod("a-0", false)};
  view.pods[0].unschedulable = "0/3 nodes are available";
  EXPECT_EQ(next_status(sandbox(), view).at("conditions").at(0).at("message").as_string(),
            "pod a-0: 0/3 nodes are available");
  view.create_failed = Error(Code::Forbidden, "exceeded quota: pods");
  EXPECT_EQ(next_status(sandbox(), view).at("conditions").at(0).at("message").as_string(), "exceeded quota: pods");
}

TEST(SandboxStatus, NonsenseFailsTheObjectAndNamesTheField) {
  const json::object status = next_status(sandbox({}, {{"replicas", "many"}}), {});
  EXPECT_EQ(conditions_of(status), std::vector<std::string>{"PodFailed:InvalidSpec"});
  EXPECT_THAT(std::string(status.at("conditions").at(0).at("message").as_string()),
              ::testing::HasSubstr("spec.replicas"));
}

TEST(SandboxStatus, FailedPausesAreRememberedAndTimesMoveOnlyWithChanges) {
  const json::object before{{"phase", "Succeed"},
                            {"conditions", json::array{json::object{{"type", "PauseFailed"},
                                                                    {"status", "True"},
                                                                    {"reason", "SnapshotFailed"},
                                                                    {"message", "m"},
                                                                    {"lastTransitionTime", "t0"}},
                                                       json::object{{"type", "Ready"},
                                                                    {"status", "True"},
                                                                    {"reason", "PodsReady"},
                                                                    {"message", "at least one pod is ready"},
                                                                    {"lastTransitionTime", "t0"}}}}};
  const json::object status = next_status(sandbox(before), {.pods = {pod("a-0", true)}, .now = "t1"});
  EXPECT_EQ(status.at("conditions"), before.at("conditions"));
}

TEST(SandboxStatus, AFirstStatusThatSaysNothingIsNotWritten) {
  EXPECT_FALSE(worth_writing(sandbox(), next_status(sandbox(), {})));
  EXPECT_TRUE(worth_writing(sandbox(), next_status(sandbox(), {.pods = {pod("a-0", false)}})));
  EXPECT_TRUE(worth_writing(sandbox(), next_status(sandbox(), {.create_failed = Error(Code::Forbidden, "quota")})));
  const json::object status = next_status(sandbox(), {.pods = {pod("a-0", true)}});
  EXPECT_FALSE(worth_writing(sandbox(status), next_status(sandbox(status), {.pods = {pod("a-0", true)}})));
}

TEST(SandboxStatus, EndpointsAreAddressesInOrder) {
  EXPECT_EQ(endpoints_of({pod("a", true), pod("b", false)}), R"(["10.0.0.1",""])");
  EXPECT_EQ(endpoints_of({}), "[]");
}

}  // namespace
}  // namespace osb::controller
