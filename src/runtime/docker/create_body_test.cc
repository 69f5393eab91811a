#include "runtime/docker/create_body.h"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <gmock/gmock.h>

#include "runtime/docker/container.h"
#include "runtime/docker/engine_json.h"
#include "runtime/labels.h"

namespace osb::runtime {
namespace {

namespace json = boost::json;
using ::testing::Contains;
using ::testing::ElementsAre;

SandboxSpec sample() {
  api::CreateSandbox create;
  create.image = api::ImageSpec{"debian", {}};
  create.entrypoint = {"sleep", "9"};
  create.metadata = api::StringMap{{"team", "a"}};
  create.env = {{"A", "1"},
                {"EXECD_ACCESS_TOKEN", "mine"},
                {"EXECD_DISK_RESERVE", "0,0"},
                {"EXECD_NO_SET_ID", "0"},
                {"OPENSANDBOX_ID", "another"}};
  create.resource_limits = api::StringMap{{"memory", "64Mi"}, {"cpu", "500m"}, {"gpu", "all"}};
  SandboxSpec spec{"x", std::make_shared<const api::CreateSandbox>(create), "secret", "", {}};
  spec.labels = make_labels("x", create, std::nullopt);
  return spec;
}

ContainerPlan plan() {
  ContainerPlan out;
  out.image = "debian";
  out.binds = {"/srv/a:/data:ro"};
  out.files = {{"/v/execd", "/opt/opensandbox/execd"}};
  out.network = "opensandbox-isolated";
  out.execd_port = 40001;
  out.http_port = 40002;
  out.limits = container_limits(sample().create->resource_limits, DockerOptions(), EngineFacts()).value();
  return out;
}

TEST(CreateBody, SaysWhatTheContractSays) {
  DockerOptions options;
  options.docker.apparmor_profile = "tight";
  options.publish_address = "127.0.0.1";
  options.runtime = "runsc";
  const json::value body = create_body(sample(), plan(), options);
  EXPECT_EQ(engine::text(body, {"Image"}), "debian");
  EXPECT_THAT(engine::string_list(body, {"Entrypoint"}), ElementsAre("/opt/opensandbox/bootstrap.sh"));
  EXPECT_THAT(engine::string_list(body, {"Cmd"}), ElementsAre("sleep", "9"));
  EXPECT_THAT(engine::string_list(body, {"Env"}),
              ElementsAre("A=1", "OPENSANDBOX_ID=x", "EXECD_ACCESS_TOKEN=secret", "EXECD_DISK_RESERVE=-1,-1",
                          "EXECD_NO_SET_ID=", "OPENSANDBOX_LIFECYCLE="));
  EXPECT_THAT(engine::string_list(body, {"Healthcheck", "Test"}), ElementsAre("NONE"))
      << "it would run outside of execd's walls";
  EXPECT_EQ(engine::number(body, {"HostConfig", "Memory"}), 64 << 20);
  EXPECT_EQ(engine::number(body, {"HostConfig", "NanoCpus"}), 500'000'000);
  EXPECT_EQ(engine::number(body, {"HostConfig", "PidsLimit"}), 4096);
  EXPECT_EQ(engine::text(body, {"HostConfig", "Runtime"}), "runsc");
  EXPECT_EQ(engine::text(body, {"HostConfig", "NetworkMode"}), "opensandbox-isolated");
  EXPECT_THAT(engine::string_list(body, {"HostConfig", "SecurityOpt"}),
              ElementsAre("no-new-privileges:true", "apparmor=tight"));
  EXPECT_THAT(engine::string_list(body, {"HostConfig", "CapDrop"}), Contains("SYS_ADMIN"));
  EXPECT_THAT(engine::string_list(body, {"HostConfig", "Binds"}), ElementsAre("/srv/a:/data:ro"));
  EXPECT_EQ(json::serialize(*engine::find(body, {"HostConfig", "PortBindings", "44772/tcp"})),
            R"([{"HostIp":"127.0.0.1","HostPort":"40001"}])");
  EXPECT_EQ(json::serialize(*engine::find(body, {"HostConfig", "Mounts"})),
            R"([{"Type":"bind","Source":"/v/execd","Target":"/opt/opensandbox/execd","ReadOnly":true}])");
  EXPECT_EQ(json::serialize(*engine::find(body, {"HostConfig", "DeviceRequests"})),
            R"([{"Driver":"","Count":-1,"DeviceIDs":[],"Capabilities":[["gpu"]],"Options":{}}])");
  EXPECT_EQ(engine::find(body, {"User"}), nullptr);
  EXPECT_EQ(engine::find(body, {"WorkingDir"}), nullptr);
}

TEST(CreateBody, ExecdIsToldTheReserveOfADiskThatItSees) {
  DockerOptions options;
  options.docker.reserve_bytes = 1000;
  options.docker.reserve_inodes = 20;
  const auto reserve = [&](const ContainerPlan& plan) {
    const auto all = engine::string_list(create_body(sample(), plan, options), {"Env"});
    EXPECT_EQ(std::ranges::count_if(all, [](const auto& each) { return each.starts_with("EXECD_DISK_RESERVE="); }), 1);
    return *std::ranges::find_if(all, [](const auto& each) { return each.starts_with("EXECD_DISK_RESERVE="); });
  };
  ContainerPlan made = plan();
  EXPECT_EQ(reserve(made), "EXECD_DISK_RESERVE=1000,20") << "a request cannot set it";
  made.limits.amounts.disk_bytes = 1 << 30;
  EXPECT_EQ(reserve(made), "EXECD_DISK_RESERVE=0,0") << "it would see the size of its limit";
}

TEST(CreateBody, NoSetIdFilesNeedAFilterAndFewerCapabilities) {
  ContainerPlan made = plan();
  made.no_set_id_files = true;
  const json::value body = create_body(sample(), made, DockerOptions());
  EXPECT_THAT(engine::string_list(body, {"Env"}), Contains("EXECD_NO_SET_ID=1"));
  EXPECT_THAT(engine::string_list(body, {"HostConfig", "CapDrop"}), ::testing::IsSupersetOf({"FSETID", "SETFCAP"}));
}

TEST(CreateBody, PublishesNothingOnTheHostsNetwork) {
  ContainerPlan without = plan();
  without.execd_port = without.http_port = 0;
  const json::value body = create_body(sample(), without, DockerOptions());
  EXPECT_EQ(engine::find(body, {"ExposedPorts"}), nullptr);
  EXPECT_EQ(engine::find(body, {"HostConfig", "PortBindings"}), nullptr);
  EXPECT_EQ(engine::find(body, {"Labels", label::kExecdHostPort}), nullptr);
}

TEST(CreateBody, APortWithoutAHostPortIsNotPublished) {
  ContainerPlan execd_only = plan();
  execd_only.http_port = 0;
  const json::value body = create_body(sample(), execd_only, DockerOptions());
  EXPECT_NE(engine::find(body, {"HostConfig", "PortBindings", "44772/tcp"}), nullptr);
  EXPECT_EQ(engine::find(body, {"HostConfig", "PortBindings", "8080/tcp"}), nullptr);
  EXPECT_EQ(engine::find(body, {"ExposedPorts", "8080/tcp"}), nullptr);
  EXPECT_EQ(engine::find(body, {"Labels", label::kHttpHostPort}), nullptr);
}

TEST(CreateBody, LabelsAreTheContracts) {
  ContainerPlan with = plan();
  with.managed_volumes = {"v"};
  const api::StringMap labels = container_labels(sample(), with);
  EXPECT_EQ(labels.at("team"), "a");
  EXPECT_EQ(labels.at("opensandbox.io/id"), "x");
  EXPECT_EQ(labels.at("opensandbox.io/manual-cleanup"), "true");
  EXPECT_EQ(labels.at("opensandbox.io/embedding-proxy-port"), "40001");
  EXPECT_EQ(labels.at("opensandbox.io/http-port"), "40002");
  EXPECT_EQ(labels.at("opensandbox.io/volume-managed-by"), R"(["v"])");
  EXPECT_FALSE(labels.contains("opensandbox.io/expires-at"));
}

TEST(CreateBody, ARestoreHidesWhatItsImageBrings) {
  SandboxSpec spec = sample();
  api::CreateSandbox create = *spec.create;
  create.image.reset();
  create.snapshot_id = "s";
  spec.create = std::make_shared<const api::CreateSandbox>(create);
  spec.labels = make_labels("x", create, std::nullopt);
  const api::StringMap labels = container_labels(spec, plan());
  EXPECT_EQ(labels.at("opensandbox.io/expires-at"), "");
  EXPECT_EQ(labels.at("opensandbox.io/volume-managed-by"), "");
  EXPECT_EQ(labels.at("opensandbox.io/egress-auth-token"), "");
  EXPECT_EQ(labels.at("opensandbox.io/manual-cleanup"), "true");
  EXPECT_EQ(labels.at("opensandbox.io/snapshot-id"), "s");
}

TEST(Container, IsReadAsTheEngineWritesIt) {
  const json::value inspected = json::parse(R"({"Id":"c1","Created":"2026-01-02T03:04:05.123456789Z",
    "State":{"Status":"exited","ExitCode":137,"OOMKilled":true,"FinishedAt":"2026-01-02T03:05:05Z"},
    "Config":{"Image":"debian","Cmd":["sleep","9"],"Env":["A=1","EXECD_ACCESS_TOKEN=t"],
      "Labels":{"opensandbox.io/id":"x","team":"a","maintainer":"image","opensandbox.io/metadata-keys":"[\"team\"]",
                "opensandbox.io/embedding-proxy-port":"40001","opensandbox.io/volume-managed-by":"[\"v\"]"}},
    "NetworkSettings":{"Networks":{"other":{"IPAddress":"10.1.0.9"},"mine":{"IPAddress":"10.0.0.9"}}}})");
  const Container container = read_container(inspected, "mine");
  EXPECT_EQ(container.address, "10.0.0.9");
  EXPECT_THAT(container.managed_volumes(), ElementsAre("v"));
  const Instance instance = to_instance(container);
  EXPECT_EQ(instance.state, InstanceState::Ended);
  EXPECT_EQ(instance.reason, "OUT_OF_MEMORY");
  EXPECT_EQ(instance.message, "out of memory (no memory left on the host or for all sandboxes together)");
  EXPECT_EQ(instance.exit_code, 137);
  EXPECT_EQ(instance.execd_token, "t");
  EXPECT_EQ(container.execd_host_port, 40001);
  EXPECT_EQ(instance.image, "debian");
  EXPECT_TRUE(instance.labels.contains("team"));
  EXPECT_FALSE(instance.labels.contains("maintainer"));
  ASSERT_TRUE(instance.ended_at);
}

TEST(Container, OutOfMemoryNamesTheLimitAndNeedsTheKillOfTheSandboxItself) {
  Container container;
  container.status = "exited";
  container.out_of_memory = true;
  container.memory_limit = 256 << 20;
  container.exit_code = 137;
  EXPECT_EQ(to_instance(container).message, "out of memory (limit 256 MiB)");
  container.exit_code = 0;
  EXPECT_EQ(to_instance(container).reason, "CONTAINER_EXITED") << "only a child was killed";
  EXPECT_EQ(to_instance(container).exit_code, 0);
}

TEST(Container, AFailedHookIsToldByTheLastLineOfItsLog) {
  const std::string time = "2026-01-02T03:04:05.6Z ";
  const std::string line = time + "execd: the sandbox ends: preStart hook ended with exit code 3\n";
  EXPECT_EQ(find_hook_failure(""), "");
  EXPECT_EQ(find_hook_failure("\n\n"), "");
  EXPECT_EQ(find_hook_failure("a\n" + time), "");
  EXPECT_EQ(find_hook_failure(time + "says execd: the sandbox ends: no\n"), "");
  EXPECT_EQ(find_hook_failure(line), "preStart hook ended with exit code 3");
  EXPECT_EQ(find_hook_failure(time + "a\n" + line + time + "{}\n"), "preStart hook ended with exit code 3");
  Container container;
  container.status = "exited";
  container.exit_code = 3;
  EXPECT_FALSE(container.may_be_hook_failure());
  container.labels["opensandbox.io/lifecycle-hooks"] = "true";
  EXPECT_TRUE(container.may_be_hook_failure());
  container.hook_failure = "preStart hook ended with exit code 3";
  EXPECT_EQ(to_instance(container).reason, "LIFECYCLE_HOOK_FAILED");
  EXPECT_EQ(to_instance(container).message, container.hook_failure);
}

TEST(Container, StatesAreTheContracts) {
  Container container;
  const auto state = [&](const char* status, int code = 0) {
    container.status = status;
    container.exit_code = code;
    return to_instance(container);
  };
  EXPECT_EQ(state("created").state, InstanceState::Creating);
  EXPECT_EQ(state("running").state, InstanceState::Running);
  EXPECT_EQ(state("restarting").state, InstanceState::Running);
  EXPECT_EQ(state("paused").state, InstanceState::Paused);
  EXPECT_EQ(state("exited").reason, "CONTAINER_EXITED");
  EXPECT_EQ(state("dead", 3).reason, "CONTAINER_EXITED_ERROR");
  EXPECT_EQ(state("exited", 3).exit_code, 3);
}

}  // namespace
}  // namespace osb::runtime
