// Sandboxes with a network policy: their sidecar comes first, goes last and sleeps with them.

#include <fstream>

#include <gmock/gmock.h>

#include "runtime/docker/docker_backend.h"
#include "runtime/docker/engine_fixture.h"
#include "runtime/labels.h"
#include "support/temp_dir.h"

namespace osb::runtime {
namespace {

namespace json = boost::json;
using osb::testing::await;
using testing::FakeEngine;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Deaf final : Observer {
  void on_all(std::vector<Instance>) override {}
  void on_change(Instance) override {}
  void on_removed(std::string) override {}
  void on_lost(const Error&) override {}
};

class DockerSidecarTest : public ::testing::Test {
 protected:
  void SetUp() override {
    engine_.images["debian"] = engine_.images["egress:1"] = "amd64";
    options_.engine.host = "unix://" + engine_.socket();
    options_.docker.network_mode = "bridge";
    options_.docker.api_timeout = std::chrono::seconds(20);
    options_.egress.image = "egress:1";
    options_.egress.dns_upstream = {"192.0.2.53"};
    options_.execd_image = "/opt/execd";
    options_.publish_address = options_.public_host = "127.0.0.1";
  }
  void TearDown() override {
    await(io_, tasks_.close());
    if (backend_) await(io_, backend_->close());
  }
  void connect() {
    auto backend = await(io_, DockerBackend::connect(io_.get_executor(), options_));
    ASSERT_TRUE(backend) << backend.error().message;
    backend_ = std::move(*backend);
  }
  static api::CreateSandbox wanted() {
    api::CreateSandbox create;
    create.image = api::ImageSpec{"debian", {}};
    create.entrypoint = {"sleep", "9"};
    create.network_policy = api::NetworkPolicy{"deny", {{"allow", "a.com"}}};
    return create;
  }
  Result<Instance> create(api::CreateSandbox create = wanted()) {
    SandboxSpec spec{"a", std::make_shared<const api::CreateSandbox>(create), "token", "policy-token", {}};
    spec.labels = make_labels("a", create, std::nullopt);
    return await(io_, backend_->lifecycle().create(std::move(spec)));
  }
  std::size_t position(const std::string& call) const {
    return static_cast<std::size_t>(std::ranges::find(engine_.calls, call) - engine_.calls.begin());
  }
  std::string status(const std::string& name) { return engine_.containers.at(name).status; }

  net::io_context io_{1};
  FakeEngine engine_{io_};
  DockerOptions options_;
  std::unique_ptr<DockerBackend> backend_;
  Deaf deaf_;
  TaskGroup tasks_{io_.get_executor()};
};

TEST_F(DockerSidecarTest, TheSidecarJoinsASandboxWhoseFirstProcessWaitsForIt) {
  connect();
  const auto made = create();
  ASSERT_TRUE(made) << made.error().message;
  // When the server is killed at any step, a sandbox that was started has a sidecar that can be started.
  EXPECT_LT(position("POST /containers/create"), position("POST /containers/sandbox-a/start"));
  EXPECT_EQ(engine_.count("POST /containers/create"), 2);
  EXPECT_LT(position("POST /containers/sandbox-a/start"), position("POST /containers/sandbox-egress-a/start"));
  const json::value& sandbox = engine_.containers.at("sandbox-a").body;
  EXPECT_EQ(engine::string_list(sandbox, {"Entrypoint"}),
            (std::vector<std::string>{"/opt/opensandbox/execd", "--wait-for-policy", "/opt/opensandbox/bootstrap.sh"}));
  EXPECT_EQ(engine::string_list(sandbox, {"Healthcheck", "Test"}), std::vector<std::string>{"NONE"})
      << "no other program of the image starts";
  EXPECT_EQ(engine::text(sandbox, {"HostConfig", "Sysctls", "net.ipv6.conf.all.disable_ipv6"}), "1");
  for (const char* port : {"44772/tcp", "8080/tcp", "18080/tcp"}) {
    EXPECT_TRUE(engine::find(sandbox, {"HostConfig", "PortBindings", port})) << port;
  }
  EXPECT_THAT(engine::string_list(sandbox, {"HostConfig", "CapDrop"}),
              ::testing::IsSupersetOf({"NET_ADMIN", "NET_RAW", "SYS_ADMIN"}));
  for (const std::string& variable : engine::string_list(sandbox, {"Env"})) {
    EXPECT_EQ(variable.find("policy-token"), std::string::npos) << variable;
  }
  EXPECT_EQ(made->egress_token, "policy-token");
  EXPECT_THAT(made->ports->route(18080).origin, StartsWith("127.0.0.1:"));
  EXPECT_EQ(made->ports->route(18080).path, "") << "not through the sandbox";
  const json::value& sidecar = engine_.containers.at("sandbox-egress-a").body;
  EXPECT_EQ(engine::text(sidecar, {"HostConfig", "NetworkMode"}), "container:c-sandbox-a");
  EXPECT_FALSE(engine::find(sidecar, {"HostConfig", "PortBindings"}));
}

TEST_F(DockerSidecarTest, TheKeyOfACredentialProxyGoesToTheSidecarsVolumeAndNowhereElse) {
  options_.egress.upstream_ca = "/etc/hostname";  // any text
  connect();
  EXPECT_EQ(backend_->capabilities().no_credential_proxy, "");
  api::CreateSandbox with_vault = wanted();
  with_vault.credential_proxy = true;
  ASSERT_TRUE(create(with_vault));
  EXPECT_LT(position("PUT /containers/sandbox-egress-a/archive"), position("POST /containers/sandbox-a/start"))
      << "a sandbox that was started has a sidecar that can be started";
  const auto& sidecar = engine_.containers.at("sandbox-egress-a");
  EXPECT_THAT(sidecar.put, ::testing::AllOf(HasSubstr("authority.pem"), HasSubstr("PRIVATE KEY"),
                                            HasSubstr("upstream-ca.pem"), HasSubstr("0000600")));
  EXPECT_THAT(engine::string_list(sidecar.body, {"Env"}),
              ::testing::IsSupersetOf({"OPENSANDBOX_EGRESS_CA_FILE=/var/lib/opensandbox/authority.pem",
                                       "OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT=true"}));
  const auto& sandbox = engine_.containers.at("sandbox-a");
  EXPECT_THAT(engine::string_list(sandbox.body, {"Env"}),
              ::testing::IsSupersetOf({HasSubstr("OPENSANDBOX_EGRESS_CA_CERTIFICATE=-----BEGIN CERTIFICATE-----"),
                                       HasSubstr("OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT=true")}));
  for (const auto* each : {&sidecar, &sandbox}) {
    EXPECT_THAT(json::serialize(each->body), ::testing::Not(HasSubstr("PRIVATE KEY")));
  }
  EXPECT_EQ(sandbox.put, "");
}

TEST_F(DockerSidecarTest, AProxyNeedsInterceptionAndItsAuthorizationIsInTheSidecarsVolumeOnly) {
  const osb::testing::TempDir directory;
  const auto file = [&](const char* name, const char* text) {
    std::ofstream(directory.path() / name) << text;
    return directory.path() / name;
  };
  options_.egress.upstream_ca = file("servers.pem", "of servers");
  options_.egress.upstream_proxy = {.url = "http://proxy.corp:3128",
                                    .authorization = "Basic c2VjcmV0",
                                    .ca_cert_path = file("proxy.pem", "of the proxy")};
  connect();
  const auto refused = create();
  ASSERT_FALSE(refused) << "connections would pass by the proxy";
  EXPECT_EQ(refused.error().code, Code::InvalidRequest);
  EXPECT_EQ(refused.error().reason, "SANDBOX::INVALID_PARAMETER");
  EXPECT_THAT(refused.error().message, ::testing::AllOf(HasSubstr("/networkPolicy"), HasSubstr("credentialProxy"),
                                                        HasSubstr("[egress.upstream_proxy]")));
  EXPECT_TRUE(engine_.containers.empty());
  api::CreateSandbox intercepted = wanted();
  intercepted.credential_proxy = true;
  ASSERT_TRUE(create(intercepted));
  const auto& sidecar = engine_.containers.at("sandbox-egress-a");
  EXPECT_THAT(engine::string_list(sidecar.body, {"Env"}),
              ::testing::IsSupersetOf(
                  {"OPENSANDBOX_EGRESS_UPSTREAM_PROXY=http://proxy.corp:3128",
                   "OPENSANDBOX_EGRESS_UPSTREAM_PROXY_AUTH_FILE=/var/lib/opensandbox/proxy-authorization"}));
  EXPECT_THAT(sidecar.put, ::testing::AllOf(HasSubstr("proxy-authorization"), HasSubstr("Basic c2VjcmV0"),
                                            HasSubstr("of servers\nof the proxy\n")));
  const auto& sandbox = engine_.containers.at("sandbox-a");
  for (const auto* each : {&sidecar, &sandbox}) {
    EXPECT_THAT(json::serialize(each->body), ::testing::Not(HasSubstr("c2VjcmV0")));
  }
  EXPECT_EQ(sandbox.put, "");
}

TEST_F(DockerSidecarTest, AFileOfTheProxyThatCannotBeReadIsNamed) {
  options_.egress.upstream_proxy = {.url = "http://proxy.corp:3128", .authorization = {}, .ca_cert_path = "/no/such"};
  connect();
  api::CreateSandbox intercepted = wanted();
  intercepted.credential_proxy = true;
  const auto made = create(intercepted);
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message, HasSubstr("[egress.upstream_proxy] ca_cert_path"));
  EXPECT_TRUE(engine_.containers.empty()) << "nothing is left";
}

TEST_F(DockerSidecarTest, ASandboxWithoutAPolicyHasNoSidecar) {
  connect();
  api::CreateSandbox plain = wanted();
  plain.network_policy.reset();
  ASSERT_TRUE(create(plain));
  EXPECT_FALSE(engine_.containers.contains("sandbox-egress-a"));
}

TEST_F(DockerSidecarTest, ASidecarThatIsNotHealthyFailsTheCreateAndLeavesNothing) {
  options_.egress.readiness_timeout = std::chrono::duration<double>(0.05);
  engine_.sidecar_answers = false;
  connect();
  const auto made = create();
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().reason, "DOCKER::SANDBOX_START_FAILED");
  EXPECT_THAT(made.error().message, HasSubstr("egress sidecar: it is not healthy"));
  EXPECT_TRUE(engine_.containers.empty());
}

TEST_F(DockerSidecarTest, ASandboxThatCannotStartTakesItsSidecarWithIt) {
  engine_.images.erase("debian");
  engine_.pullable["debian"] = "amd64";
  connect();
  engine_.pullable.clear();
  ASSERT_FALSE(create());
  EXPECT_TRUE(engine_.containers.empty());
}

TEST_F(DockerSidecarTest, AnEngineWithoutTheIpv6SettingIsAskedAgainWithoutIt) {
  connect();
  engine_.refuse_start = {"write sysctl key net.ipv6.conf.all.disable_ipv6: no such file or directory"};
  ASSERT_TRUE(create());
  EXPECT_FALSE(engine::find(engine_.containers.at("sandbox-a").body, {"HostConfig", "Sysctls"}));
}

TEST_F(DockerSidecarTest, AnEngineWithoutTheIpv6SettingIsNotAskedForItAgain) {
  connect();
  engine_.refuse_start = {"write sysctl key net.ipv6.conf.all.disable_ipv6: no such file or directory",
                          "driver failed: port is already allocated"};
  ASSERT_TRUE(create()) << "with another port";
  EXPECT_FALSE(engine::find(engine_.containers.at("sandbox-a").body, {"HostConfig", "Sysctls"}));
}

TEST_F(DockerSidecarTest, APortThatWasTakenMeanwhileIsReplaced) {
  connect();
  engine_.refuse_start = {"driver failed: port is already allocated"};
  ASSERT_TRUE(create());
  EXPECT_EQ(engine_.containers.size(), 2u);
}

TEST_F(DockerSidecarTest, TheSidecarSleepsWithItsSandboxAndAHalfThatFailsIsTakenBack) {
  connect();
  ASSERT_TRUE(create());
  ASSERT_TRUE(await(io_, backend_->lifecycle().pause("a")));
  EXPECT_EQ(status("sandbox-a"), "paused");
  EXPECT_EQ(status("sandbox-egress-a"), "paused");
  EXPECT_TRUE(await(io_, backend_->lifecycle().pause("a"))) << "a second one is no failure";
  ASSERT_TRUE(await(io_, backend_->lifecycle().resume("a")));
  EXPECT_EQ(status("sandbox-egress-a"), "running");
  engine_.refuse_pause = {"no"};
  const auto refused = await(io_, backend_->lifecycle().pause("a"));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("egress sidecar, which is running: no"));
  EXPECT_EQ(status("sandbox-a"), "running");
}

TEST_F(DockerSidecarTest, ASandboxWhoseSidecarIsMissingIsNotResumed) {
  connect();
  ASSERT_TRUE(create());
  ASSERT_TRUE(await(io_, backend_->lifecycle().pause("a")));
  auto gone = std::move(engine_.containers.at("sandbox-egress-a").execd);
  engine_.containers.erase("sandbox-egress-a");
  await(io_, gone->stop(std::chrono::milliseconds(0)));
  const auto refused = await(io_, backend_->lifecycle().resume("a"));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("which is missing"));
  EXPECT_EQ(status("sandbox-a"), "paused");
}

TEST_F(DockerSidecarTest, ResumeStartsASidecarThatHasEnded) {
  connect();
  ASSERT_TRUE(create());
  await(io_, engine_.kill_sidecar("a"));
  ASSERT_TRUE(await(io_, backend_->lifecycle().pause("a"))) << "a sandbox without its sidecar stays closed";
  EXPECT_EQ(status("sandbox-a"), "paused");
  engine_.containers.at("sandbox-a").status = "running";  // so that this engine lets the sidecar join
  ASSERT_TRUE(await(io_, backend_->lifecycle().resume("a")));
  EXPECT_EQ(status("sandbox-egress-a"), "running");
}

TEST_F(DockerSidecarTest, ASidecarThatEndsIsStartedAgain) {
  connect();
  tasks_.spawn("watch", backend_->lifecycle().watch(deaf_));
  ASSERT_TRUE(create());
  for (int round = 0; round < 2; ++round) {
    await(io_, engine_.kill_sidecar("a"));
    await(io_, engine_.changed.wait_until([&] { return status("sandbox-egress-a") == "running"; }));
  }
  EXPECT_EQ(status("sandbox-a"), "running");
}

TEST_F(DockerSidecarTest, AServerStartsSidecarsThatEndedInItsAbsence) {
  connect();
  ASSERT_TRUE(create());
  await(io_, backend_->close());
  await(io_, engine_.kill_sidecar("a"));
  connect();
  ASSERT_TRUE(await(io_, backend_->lifecycle().list()));
  await(io_, engine_.changed.wait_until([&] { return status("sandbox-egress-a") == "running"; }));
}

TEST_F(DockerSidecarTest, TheSidecarGoesWithItsSandbox) {
  connect();
  ASSERT_TRUE(create());
  ASSERT_TRUE(await(io_, backend_->lifecycle().remove("a")));
  EXPECT_TRUE(engine_.containers.empty());
  EXPECT_LT(position("DELETE /containers/sandbox-egress-a"), position("DELETE /containers/sandbox-a"))
      << "Podman removes no container whose network is in use";
}

TEST_F(DockerSidecarTest, AnotherServerFindsThePolicyApiByTheLabels) {
  connect();
  const auto made = create();
  ASSERT_TRUE(made);
  await(io_, backend_->close());
  connect();
  const auto found = await(io_, backend_->lifecycle().list());
  ASSERT_TRUE(found);
  ASSERT_EQ(found->size(), 1u);
  EXPECT_EQ(found->front().egress_token, "policy-token");
  EXPECT_EQ(found->front().ports->route(18080).origin, made->ports->route(18080).origin);
}

TEST_F(DockerSidecarTest, RequestsThatCannotBeEnforcedAreRefused) {
  connect();
  api::CreateSandbox isolated = wanted();
  isolated.extensions["bootstrap.execd.isolation"] = "enable";
  const auto refused = backend_->lifecycle().check(isolated);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("cannot be combined with a networkPolicy"));
  EXPECT_TRUE(backend_->lifecycle().check(wanted()));
  EXPECT_EQ(backend_->capabilities().no_network_policy, "");
  await(io_, backend_->close());
  const struct {
    std::function<void(DockerOptions&)> change;
    const char* message;
  } rows[] = {
      {[](DockerOptions& o) { o.docker.network_mode = "host"; }, "network_mode = \"bridge\""},
      {[](DockerOptions& o) { o.egress.image = ""; }, "[egress] image is not set"},
      {[](DockerOptions& o) { o.egress.dns_upstream.clear(); }, "set [egress] dns_upstream"},
      {[](DockerOptions& o) { o.runtime = "runc"; }, "network stack of their own"},
  };
  const DockerOptions usual = options_;
  for (const auto& row : rows) {
    options_ = usual;
    row.change(options_);
    connect();
    EXPECT_THAT(backend_->capabilities().no_network_policy, HasSubstr(row.message));
    await(io_, backend_->close());
  }
}

}  // namespace
}  // namespace osb::runtime
