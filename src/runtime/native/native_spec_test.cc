#include "runtime/native/native_spec.h"

#include <gtest/gtest.h>

namespace osb::runtime {
namespace {

api::CreateSandbox wanted() {
  api::CreateSandbox out;
  out.image = api::ImageSpec{"python:3.12", api::ImageLogin{"robot", "secret"}};
  out.entrypoint = {"sleep", "infinity"};
  out.resource_limits = api::StringMap{{"cpu", "500m"}, {"memory", "64Mi"}};
  return out;
}

Result<api::native::CreateSandbox> convert(api::CreateSandbox create) {
  return to_native({"id-1", std::make_shared<const api::CreateSandbox>(std::move(create)), "0123456789abcdef"});
}

TEST(NativeSpec, CarriesWhatWasAsked) {
  auto create = wanted();
  create.env = {{"A", "1"}, {"OPENSANDBOX_ID", "another"}};
  create.platform = api::Platform{"linux", "arm64"};
  const auto native = convert(create);
  ASSERT_TRUE(native) << native.error().message;
  EXPECT_EQ(native->id, "id-1");
  EXPECT_EQ(native->image, "python:3.12");
  EXPECT_EQ(native->login->password, "secret");
  EXPECT_EQ(native->platform, "linux/arm64");
  EXPECT_EQ(native->entrypoint, create.entrypoint);
  EXPECT_EQ(native->env, (api::StringMap{{"A", "1"}, {"OPENSANDBOX_ID", "id-1"}, {"OPENSANDBOX_LIFECYCLE", ""}}))
      << "its own id wins, and no hooks of the image";
  EXPECT_EQ(native->limits.cpu_millis, 500u);
  EXPECT_EQ(native->limits.memory_bytes, 64u << 20);
  EXPECT_EQ(native->execd_token, "0123456789abcdef");
}

TEST(NativeSpec, APolicyGoesWithItsTokenAndItsVariablesStayOutside) {
  auto create = wanted();
  create.network_policy = api::NetworkPolicy{"deny", {{"allow", "a.com"}}};
  create.env = {{"OPENSANDBOX_EGRESS_LOG_LEVEL", "debug"}};
  const auto native =
      to_native({"id-1", std::make_shared<const api::CreateSandbox>(create), "0123456789abcdef", "t0ken"});
  ASSERT_TRUE(native) << native.error().message;
  EXPECT_EQ(native->network_policy, create.network_policy);
  EXPECT_EQ(native->egress_token, "t0ken");
  EXPECT_FALSE(native->env.contains("OPENSANDBOX_EGRESS_LOG_LEVEL"));
}

TEST(NativeSpec, AWebhookForDeniedNamesIsRefused) {
  auto create = wanted();
  create.env = {{"OPENSANDBOX_EGRESS_DENY_WEBHOOK", "http://h"}};
  EXPECT_TRUE(convert(create)) << "without a policy the variable is for nobody";
  create.network_policy.emplace();
  const auto refused = convert(create);
  ASSERT_FALSE(refused);
  EXPECT_TRUE(refused.error().message.starts_with("/env/OPENSANDBOX_EGRESS_DENY_WEBHOOK: ")) << refused.error().message;
}

TEST(NativeSpec, ThePolicyApiIsReachedThroughSandboxd) {
  api::native::SandboxStatus status;
  status.id = "a";
  status.address = "10.0.0.2";
  EXPECT_EQ(to_instance(status).ports->route(18080).origin, "10.0.0.2:18080");
  EXPECT_EQ(to_instance(status).ports->client_route(18080).endpoint, "10.0.0.2:18080");
  status.egress_token = "t0ken";
  EXPECT_EQ(to_instance(status).egress_token, "t0ken");
  EXPECT_EQ(to_instance(status).ports->route(18080).origin, "sandboxd:a/18080");
  EXPECT_EQ(to_instance(status).ports->client_route(18080).endpoint, "");
  EXPECT_EQ(to_instance(status).ports->route(8080).origin, "10.0.0.2:8080");
}

TEST(NativeSpec, CarriesEveryLimit) {
  auto create = wanted();
  create.resource_limits = api::StringMap{{"disk", "1Gi"},
                                          {"pids", "99"},
                                          {"gpu", "2"},
                                          {"io-read-bps", "1Mi"},
                                          {"io-write-bps", "2Mi"},
                                          {"io-read-iops", "3"},
                                          {"io-write-iops", "4"},
                                          {"network-receive-bps", "5Ki"},
                                          {"network-send-bps", "6Ki"}};
  const auto native = convert(create);
  ASSERT_TRUE(native) << native.error().message;
  api::native::Limits limits;
  limits.disk_bytes = 1 << 30;
  limits.pids = 99;
  limits.io_read_bps = 1 << 20;
  limits.io_write_bps = 2 << 20;
  limits.io_read_iops = 3;
  limits.io_write_iops = 4;
  limits.network_receive_bps = 5 << 10;
  limits.network_send_bps = 6 << 10;
  EXPECT_EQ(native->limits, limits);
  EXPECT_EQ(native->gpus, "2");
}

TEST(NativeSpec, AnEntrypointOfOneStringIsSplitAndShownAsAsked) {
  auto create = wanted();
  create.entrypoint = {"tail -f /dev/null"};
  const auto native = convert(create);
  ASSERT_TRUE(native) << native.error().message;
  EXPECT_EQ(native->entrypoint, (std::vector<std::string>{"tail", "-f", "/dev/null"}));
  EXPECT_EQ(native->requested_entrypoint, create.entrypoint);
  create.entrypoint = {"sh -c 'x"};
  EXPECT_EQ(convert(create).error().code, Code::InvalidRequest);
}

TEST(NativeSpec, TheHostNameIsTheNameOrMadeFromTheId) {
  auto create = wanted();
  EXPECT_EQ(convert(create)->hostname, "sandbox-id-1");
  for (const auto& [name, hostname] :
       std::initializer_list<std::pair<std::string, std::string>>{{"web-1", "web-1"},
                                                                  {"Build7", "Build7"},
                                                                  {"my box", "sandbox-id-1"},
                                                                  {"-x", "sandbox-id-1"},
                                                                  {"x-", "sandbox-id-1"},
                                                                  {"a.b", "sandbox-id-1"},
                                                                  {"a\nb", "sandbox-id-1"},
                                                                  {"", "sandbox-id-1"},
                                                                  {std::string(63, 'a'), std::string(63, 'a')},
                                                                  {std::string(64, 'a'), "sandbox-id-1"}}) {
    create.metadata = api::StringMap{{"name", name}};
    EXPECT_EQ(convert(create)->hostname, hostname) << name;
  }
}

TEST(NativeSpec, LabelsComeBackWithTheEntrypoint) {
  SandboxSpec spec{
      "id-1", std::make_shared<const api::CreateSandbox>(wanted()), "", "", {{"opensandbox.io/id", "id-1"}}};
  const auto native = to_native(spec);
  ASSERT_TRUE(native);
  api::native::SandboxStatus sandbox;
  sandbox.labels = native->labels;
  sandbox.requested_entrypoint = native->requested_entrypoint;
  sandbox.image = native->image;
  const Instance instance = to_instance(sandbox);
  EXPECT_EQ(instance.labels, spec.labels);
  EXPECT_EQ(instance.entrypoint, wanted().entrypoint);
  EXPECT_EQ(instance.image, "python:3.12");
}

TEST(NativeSpec, TinySharesOfACpuAreNotNone) {
  auto create = wanted();
  create.resource_limits = api::StringMap{{"cpu", "0.0001"}, {"memory", "0"}};
  const auto native = convert(create);
  ASSERT_TRUE(native);
  EXPECT_EQ(native->limits.cpu_millis, 1u);
  EXPECT_FALSE(native->limits.memory_bytes) << "zero is Docker's word for no limit";
}

TEST(NativeSpec, VolumesAreHostPathsOrNamed) {
  auto create = wanted();
  api::Volume host;
  host.mount_path = "/data";
  host.host = api::HostVolume{"/srv/data"};
  host.read_only = true;
  api::Volume named;
  named.mount_path = "/cache";
  named.sub_path = "a";
  named.pvc.emplace();
  named.pvc->claim_name = "cache";
  named.pvc->delete_on_sandbox_termination = true;
  create.volumes = {host, named};
  const auto native = convert(create);
  ASSERT_TRUE(native);
  EXPECT_EQ(native->volumes[0].kind, api::native::VolumeKind::Host);
  EXPECT_EQ(native->volumes[0].source, "/srv/data");
  EXPECT_TRUE(native->volumes[0].read_only);
  EXPECT_EQ(native->volumes[1].kind, api::native::VolumeKind::Named);
  EXPECT_TRUE(native->volumes[1].create && native->volumes[1].delete_with_sandbox);
  EXPECT_EQ(native->volumes[1].sub_path, "a");
}

TEST(NativeSpec, BucketsAreRefusedByName) {
  auto create = wanted();
  api::Volume bucket;
  bucket.mount_path = "/b";
  bucket.ossfs = api::OssfsVolume{};
  create.volumes = {bucket};
  const auto native = convert(create);
  ASSERT_FALSE(native);
  EXPECT_EQ(native.error().reason, "SANDBOX::INVALID_PARAMETER");
  EXPECT_TRUE(native.error().message.starts_with("/volumes/0")) << native.error().message;
}

TEST(NativeSpec, EndsHaveTheContractsWords) {
  api::native::SandboxStatus sandbox;
  sandbox.id = "x";
  sandbox.state = api::native::State::Exited;
  sandbox.reason = "EXITED";
  sandbox.exit = api::native::Exit{0, 0, false};
  EXPECT_EQ(to_instance(sandbox).reason, "CONTAINER_EXITED");
  sandbox.exit->code = 2;
  EXPECT_EQ(to_instance(sandbox).reason, "CONTAINER_EXITED_ERROR");
  EXPECT_EQ(to_instance(sandbox).exit_code, 2);
  sandbox.reason = "OUT_OF_MEMORY";
  EXPECT_EQ(to_instance(sandbox).reason, "OUT_OF_MEMORY");
  EXPECT_EQ(to_instance(sandbox).state, InstanceState::Ended);
}

}  // namespace
}  // namespace osb::runtime
