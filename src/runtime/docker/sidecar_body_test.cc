#include "runtime/docker/sidecar_body.h"

#include <gtest/gtest.h>

#include "runtime/docker/engine_json.h"

namespace osb::runtime {
namespace {

SandboxSpec spec() {
  api::CreateSandbox create;
  create.network_policy = api::NetworkPolicy{"deny", {{"allow", "a.com"}}};
  create.env = {{"MINE", "1"}, {"OPENSANDBOX_EGRESS_LOG_LEVEL", "debug"}, {"OPENSANDBOX_EGRESS_POLICY_FILE", "/etc/x"}};
  return {"x", std::make_shared<const api::CreateSandbox>(std::move(create)), "execd", "t0ken", {}};
}

DockerOptions options() {
  DockerOptions out;
  out.egress.image = "egress:1";
  out.publish_address = "127.0.0.1";
  return out;
}

TEST(SidecarBody, JoinsTheNetworkOfTheSandboxAndEnforcesThePolicy) {
  const auto body = sidecar_body(spec(), {.container = "c1", .resolvers = {"10.0.0.2", "10.0.0.3:5353"}}, options());
  EXPECT_EQ(engine::text(body, {"Image"}), "egress:1");
  EXPECT_EQ(engine::text(body, {"Labels", "opensandbox.io/egress-sidecar-for"}), "x");
  EXPECT_FALSE(engine::find(body, {"Labels", "opensandbox.io/id"})) << "it is no sandbox";
  EXPECT_EQ(engine::text(body, {"HostConfig", "NetworkMode"}), "container:c1");
  EXPECT_EQ(engine::string_list(body, {"HostConfig", "CapDrop"}), std::vector<std::string>{"ALL"});
  EXPECT_EQ(engine::string_list(body, {"HostConfig", "CapAdd"}), (std::vector<std::string>{"NET_ADMIN", "SETUID"}));
  EXPECT_TRUE(engine::flag(body, {"HostConfig", "ReadonlyRootfs"}));
  EXPECT_TRUE(engine::find(body, {"Volumes", "/var/lib/opensandbox"})) << "changes of the policy outlive its processes";
  EXPECT_EQ(engine::string_list(body, {"Env"}),
            (std::vector<std::string>{
                "OPENSANDBOX_EGRESS_DNS_UPSTREAM=10.0.0.2,10.0.0.3:5353", "OPENSANDBOX_EGRESS_LOG_LEVEL=debug",
                "OPENSANDBOX_EGRESS_MODE=dns+nft", "OPENSANDBOX_EGRESS_POLICY_FILE=/var/lib/opensandbox/policy.json",
                R"(OPENSANDBOX_EGRESS_RULES={"defaultAction":"deny","egress":[{"action":"allow","target":"a.com"}]})",
                "OPENSANDBOX_EGRESS_SANDBOX_ID=x", "OPENSANDBOX_EGRESS_TOKEN=t0ken"}));
}

TEST(SidecarBody, TakesTheOperatorsLimitsAndCollector) {
  DockerOptions wanted = options();
  wanted.egress.limits = {{"cpu", "500m"}, {"memory", "64Mi"}};
  wanted.egress.otlp_endpoint = "http://collector:4318";
  wanted.egress.mode = "dns";
  const auto body = sidecar_body(spec(), {.container = "c1"}, wanted);
  EXPECT_EQ(engine::number(body, {"HostConfig", "Memory"}), 64 << 20);
  EXPECT_EQ(engine::number(body, {"HostConfig", "NanoCpus"}), 500'000'000);
  const auto env = engine::string_list(body, {"Env"});
  EXPECT_EQ(env.back(), "OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318");
  EXPECT_TRUE(check_sidecar_limits(wanted.egress));
  wanted.egress.limits = {{"gpu", "1"}};
  EXPECT_FALSE(check_sidecar_limits(wanted.egress));
  wanted.egress.limits = {{"memory", "much"}};
  EXPECT_FALSE(check_sidecar_limits(wanted.egress));
}

TEST(SidecarBody, AuditsForATemplateInAuditMode) {
  SandboxSpec audited = spec();
  api::CreateSandbox create = *audited.create;
  create.extensions["policy.mode"] = "audit";
  audited.create = std::make_shared<const api::CreateSandbox>(std::move(create));
  const auto env = engine::string_list(sidecar_body(audited, {.container = "c1"}, options()), {"Env"});
  EXPECT_EQ(env.front(), "OPENSANDBOX_EGRESS_AUDIT=true");
}

}  // namespace
}  // namespace osb::runtime
