#include "controller/snapshot/snapshot_reconciler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/testing/controller_fixture.h"

namespace osb::controller {
namespace {

using ::testing::ElementsAre;

namespace resources = kubernetes::resources;

class SnapshotTest : public testing::ControllerFixture {
 protected:
  SnapshotTest() {
    options.snapshots.registry = "registry.test/snaps/";
    options.snapshots.committer_image = "committer:1";
    options.snapshots.push_secret = "push";
  }
  void snapshot(const std::string& name, const std::string& of) {
    make(kSnapshots, {{"metadata", {{"name", name}}}, {"spec", {{"sandboxName", of}}}});
  }
};

TEST_F(SnapshotTest, AJobSavesTheContainersAndItsMessageGivesTheDigests) {
  start();
  sandbox("a", {{"template", pod_template()}});
  settle();
  const std::string name = "osb-snap-0123456789abcdef0123456789abcdef";
  snapshot(name, "a");
  settle();
  EXPECT_EQ(kubernetes::text(*stored(kSnapshots, name), {"status", "phase"}), "Committing");
  EXPECT_EQ(kubernetes::text(*stored(kSnapshots, name), {"status", "sourcePodName"}), "a-0");
  const json::object job = *stored(resources::kJobs, name + "-commit");
  EXPECT_EQ(kubernetes::label(job, keys::kNodeAccess), "true");
  EXPECT_EQ(kubernetes::number(job, {"spec", "backoffLimit"}), 3);
  kubelet_runs = false;  // the job's pod has a status of its own
  make(resources::kPods,
       {{"metadata", {{"name", "job-pod"}, {"labels", {{"job-name", name + "-commit"}}}}}, {"spec", json::object()}});
  set_status(resources::kPods, "job-pod",
             {{"containerStatuses",
               json::array{json::object{
                   {"name", "commit"},
                   {"state",
                    {{"terminated",
                      {{"message", R"({"containers":[{"name":"sandbox","image":"i","digest":"sha256:1"}]})"}}}}}}}}});
  set_status(resources::kJobs, name + "-commit", {{"succeeded", 1}});
  settle();
  const json::object done = *stored(kSnapshots, name);
  EXPECT_EQ(kubernetes::text(done, {"status", "phase"}), "Succeed");
  EXPECT_EQ(kubernetes::find(done, {"status", "containers"})->at(0),
            (json::object{{"containerName", "sandbox"},
                          {"imageUri", "registry.test/snaps/a-sandbox:snap-0123456789abcdef0123456789abcdef"},
                          {"imageDigest", "sha256:1"}}));
  EXPECT_THAT(conditions(kSnapshots, name), ElementsAre("Ready:Committed"));
  remove(kSnapshots, name);
  settle();
  EXPECT_FALSE(stored(kSnapshots, name));
  EXPECT_FALSE(stored(resources::kJobs, name + "-commit"));
}

TEST_F(SnapshotTest, AFailedJobIsToldWithTheLastReasonOfItsProgram) {
  start();
  sandbox("a", {{"template", pod_template()}});
  settle();
  snapshot("s", "a");
  settle();
  kubelet_runs = false;
  for (const auto& [name, message, time] :
       {std::tuple("second", "s/a:1: the registry wants (other) credentials", "2026-01-01T00:00:20Z"),
        std::tuple("first", "no space left", "2026-01-01T00:00:10Z")}) {
    make(resources::kPods,
         {{"metadata", {{"name", name}, {"labels", {{"job-name", "s-commit"}}}}}, {"spec", json::object()}});
    set_status(resources::kPods, name,
               {{"containerStatuses",
                 json::array{json::object{
                     {"name", "commit"},
                     {"state", {{"terminated", {{"exitCode", 1}, {"message", message}, {"finishedAt", time}}}}}}}}});
  }
  set_status(
      resources::kJobs, "s-commit",
      {{"conditions",
        json::array{json::object{
            {"type", "Failed"}, {"status", "True"}, {"reason", "BackoffLimitExceeded"}, {"message", "4 times"}}}}});
  settle();
  const json::value& failed = kubernetes::find(*stored(kSnapshots, "s"), {"status", "conditions"})->at(0);
  EXPECT_EQ(failed.at("reason").as_string(), "CommitJobFailed");
  EXPECT_EQ(failed.at("message").as_string(),
            "s/a:1: the registry wants (other) credentials (BackoffLimitExceeded: 4 times)");
}

TEST_F(SnapshotTest, EveryReasonToFailIsNamed) {
  kubelet_runs = false;
  start();
  sandbox("starting", {{"template", pod_template()}});
  snapshot("nothing", "nobody");
  snapshot("early", "starting");
  make(kSnapshots, {{"metadata", {{"name", "no-spec"}}}});
  settle();
  EXPECT_THAT(conditions(kSnapshots, "nothing"), ElementsAre("Failed:BatchSandboxLookupFailed"));
  EXPECT_THAT(conditions(kSnapshots, "early"), ElementsAre("Failed:SourcePodNotFound"));
  EXPECT_THAT(conditions(kSnapshots, "no-spec"), ElementsAre("Failed:BatchSandboxLookupFailed"));
  stop();
  options.snapshots.registry = "";
  start();
  snapshot("no-registry", "starting");
  settle();
  EXPECT_THAT(conditions(kSnapshots, "no-registry"), ElementsAre("Failed:RegistryNotConfigured"));
}

TEST_F(SnapshotTest, AJobThatVanishesIsMadeAgain) {
  start();
  sandbox("a", {{"template", pod_template()}});
  settle();
  snapshot("s", "a");
  settle();
  remove(resources::kJobs, "s-commit");
  settle();
  EXPECT_TRUE(stored(resources::kJobs, "s-commit"));
}

TEST(CommitJob, TheProgramsMessageMayBeNonsense) {
  for (const char* text : {"", "no", "[]", "{\"containers\":7}", "{\"containers\":[1]}"}) {
    EXPECT_TRUE(parse_committed(text).empty()) << text;
  }
}

TEST(CommitJob, ThePushSecretIsMountedAndNothingElseIsGranted) {
  SnapshotOptions options;
  options.committer_image = "c";
  options.push_secret = "push";
  const json::object job = commit_job({{"metadata", {{"name", "s"}, {"namespace", "ns"}, {"uid", "u"}}}},
                                      {"pod", "node", {{"main", "img", ""}}}, options);
  const json::value& pod = *kubernetes::find(job, {"spec", "template", "spec"});
  EXPECT_EQ(pod.at("volumes").at(1).at("secret").at("secretName").as_string(), "push");
  EXPECT_EQ(pod.at("containers").at(0).at("securityContext").at("allowPrivilegeEscalation").as_bool(), false);
  EXPECT_EQ(pod.at("containers").at(0).at("securityContext").at("capabilities").at("drop").at(0).as_string(), "ALL");
  EXPECT_EQ(pod.at("automountServiceAccountToken").as_bool(), false);
}

}  // namespace
}  // namespace osb::controller
