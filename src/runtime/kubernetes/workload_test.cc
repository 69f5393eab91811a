#include "runtime/kubernetes/workload.h"

#include <gtest/gtest.h>

#include "api/json.h"

namespace osb::runtime {
namespace {

namespace json = boost::json;

json::object object(const std::string& text) { return api::parse_json(text).value().as_object(); }

Instance read(const std::string& workload, const std::string& pod = "") {
  const json::object parsed = object(workload);
  if (pod.empty()) return to_instance(parsed, nullptr);
  const json::object its_pod = object(pod);
  return to_instance(parsed, &its_pod);
}

TEST(Workloads, StatesFollowPhaseAndPod) {
  const std::string ended = R"({"status":{"phase":"Failed","containerStatuses":[{"name":"sandbox","state":)"
                            R"({"terminated":{"exitCode":3,"finishedAt":"2026-01-02T03:04:05Z"}}}]}})";
  struct Row {
    const char* why;
    std::string workload, pod;
    InstanceState want;
    std::string reason;
  };
  for (
      const Row& row : std::initializer_list<Row>{
          {"new", "{}", "", InstanceState::Creating, ""},
          {"runs", R"({"status":{"phase":"Succeed"}})", "", InstanceState::Running, ""},
          {"deleted", R"({"metadata":{"deletionTimestamp":"x"},"status":{"phase":"Succeed"}})", "",
           InstanceState::Removing, ""},
          {"paused", R"({"status":{"phase":"Paused"}})", ended, InstanceState::Paused, ""},
          {"pause asked for", R"({"spec":{"pause":true},"status":{"phase":"Succeed"}})", "", InstanceState::Pausing,
           ""},
          {"pause has failed",
           R"({"spec":{"pause":true},"status":{"phase":"Succeed","conditions":[{"type":"PauseFailed","status":"True"}]}})",
           "", InstanceState::Running, ""},
          {"asked for again",
           R"({"metadata":{"generation":2},"spec":{"pause":true},"status":{"phase":"Succeed","pauseObservedGeneration":1,)"
           R"("conditions":[{"type":"PauseFailed","status":"True"}]}})",
           "", InstanceState::Pausing, ""},
          {"resume asked for", R"({"spec":{"pause":false},"status":{"phase":"Paused"}})", "", InstanceState::Resuming,
           ""},
          {"resumed long ago", R"({"spec":{"pause":false},"status":{"phase":"Succeed"}})", "", InstanceState::Running,
           ""},
          {"task failed", R"({"spec":{"taskTemplate":{}},"status":{"phase":"Succeed","taskFailed":1}})", "",
           InstanceState::Ended, "TASK_FAILED"},
          {"sandbox ended beside a sidecar", R"({"status":{"phase":"Succeed"}})",
           R"({"spec":{"restartPolicy":"Never"},"status":{"phase":"Running","containerStatuses":[)"
           R"({"name":"egress","state":{"running":{}}},{"name":"sandbox","state":{"terminated":{"exitCode":0}}}]}})",
           InstanceState::Ended, "CONTAINER_EXITED"},
          {"agent runs", R"({"kind":"Sandbox","status":{"conditions":[{"type":"Ready","status":"True"}]}})", "",
           InstanceState::Running, ""},
          {"agent expired",
           R"({"kind":"Sandbox","status":{"conditions":[{"type":"Ready","status":"False","reason":"SandboxExpired"}]}})",
           "", InstanceState::Ended, "SANDBOX_EXPIRED"},
          {"agent suspends", R"({"kind":"Sandbox","spec":{"operatingMode":"Suspended"}})", "", InstanceState::Pausing,
           ""},
          {"agent suspended",
           R"({"kind":"Sandbox","spec":{"operatingMode":"Suspended"},"status":{"conditions":[)"
           R"({"type":"Suspended","status":"True"}]}})",
           "", InstanceState::Paused, ""},
          {"entrypoint failed", R"({"status":{"phase":"Succeed"}})", ended, InstanceState::Ended,
           "CONTAINER_EXITED_ERROR"},
          {"controller gave up",
           R"({"status":{"phase":"Failed","conditions":[{"type":"PodFailed","status":"True","reason":"X"}]}})", "",
           InstanceState::Ended, "POD_FAILED"},
          {"evicted", "{}", R"({"status":{"phase":"Failed","reason":"Evicted"}})", InstanceState::Ended,
           "POD_FAILED"}}) {
    const Instance got = read(row.workload, row.pod);
    EXPECT_EQ(got.state, row.want) << row.why;
    EXPECT_EQ(got.reason, row.reason) << row.why;
  }
  EXPECT_EQ(read("{}", ended).exit_code, 3);
  EXPECT_TRUE(read("{}", ended).ended_at);
}

TEST(Workloads, ObjectsEditedIntoNonsenseAreRead) {
  for (const char* text :
       {R"({"metadata":5,"spec":[],"status":"x"})",
        R"({"metadata":{"labels":[],"annotations":{"sandbox.opensandbox.io/endpoints":"[5"}}})",
        R"({"metadata":{"annotations":{"sandbox.opensandbox.io/endpoints":"[{}]"}},"spec":{"expireTime":7}})",
        R"({"spec":{"template":{"spec":{"containers":[1,{"command":[2],"env":[[]]}]}}}})",
        R"({"status":{"phase":1,"conditions":[0],"containerStatuses":{}}})"}) {
    const Instance got = read(text, text);
    EXPECT_EQ(got.state, InstanceState::Creating) << text;
    EXPECT_EQ(got.address, "") << text;
  }
}

TEST(Workloads, TroubleIsNamed) {
  const auto image = trouble_of(object(
      R"({"status":{"containerStatuses":[{"name":"sandbox","state":{"waiting":{"reason":"ImagePullBackOff","message":"no such image"}}}]}})"));
  ASSERT_TRUE(image);
  EXPECT_TRUE(image->final);
  EXPECT_EQ(image->message, "container sandbox: ImagePullBackOff: no such image");
  const auto place = trouble_of(object(
      R"({"status":{"conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"0/3 nodes"}]}})"));
  ASSERT_TRUE(place);
  EXPECT_FALSE(place->final);
  EXPECT_EQ(place->message, "Unschedulable: 0/3 nodes");
  EXPECT_FALSE(trouble_of(object(
      R"({"status":{"containerStatuses":[{"name":"sandbox","state":{"waiting":{"reason":"ContainerCreating"}}}]}})")));
}

TEST(Workloads, TheAddressIsThePodsOrTheFirstEndpoint) {
  const std::string workload = R"({"metadata":{"annotations":{"sandbox.opensandbox.io/endpoints":"[\"10.0.0.4\"]"}}})";
  EXPECT_EQ(read(workload).address, "10.0.0.4");
  const Instance got = read(workload, R"({"status":{"podIP":"fd00::1"}})");
  EXPECT_EQ(got.ports->route(80).origin, "[fd00::1]:80");
  EXPECT_EQ(got.ports->client_route(44772).endpoint, "[fd00::1]:44772");
}

}  // namespace
}  // namespace osb::runtime
