#include "runtime/kubernetes/manifest.h"

#include <boost/json/serialize.hpp>
#include <gtest/gtest.h>

#include "api/json.h"
#include "base/base64.h"
#include "kubernetes/object.h"
#include "runtime/kubernetes/workload.h"
#include "runtime/labels.h"

namespace osb::runtime {
namespace {

namespace json = boost::json;
using kubernetes::find;
using kubernetes::text;

class Manifests : public ::testing::Test {
 protected:
  Manifests() {
    options.ns = "boxes";
    options.execd_image = "execd:1";
    create.image = api::ImageSpec{"debian:12", {}};
    create.entrypoint = {"sh", "-c", "echo $HOME $(id)"};
    create.env = {{"PRICE", "5$"}, {"EXECD_ACCESS_TOKEN", "stolen"}};
    create.resource_limits = api::StringMap{{"cpu", "500m"}, {"memory", "1Gi"}};
    create.metadata = api::StringMap{{"team", "a"}};
  }
  SandboxSpec spec() const {
    const Timestamp deadline(std::chrono::microseconds(1'700'000'000'500'000));
    return {"box-1", std::make_shared<const api::CreateSandbox>(create), "secret-token", "",
            make_labels("box-1", create, create.timeout ? std::optional(deadline) : std::nullopt)};
  }
  json::object made() const { return batch_sandbox(spec(), options, create.image ? create.image->uri : ""); }
  static const json::object& pod(const json::object& made) {
    return find(made, {"spec", "template", "spec"})->as_object();
  }
  static const json::object& container(const json::object& made) {
    return pod(made).at("containers").at(0).as_object();
  }
  std::string refused() const {
    const auto ok = check_for_cluster(create, options);
    return ok ? "" : ok.error().message;
  }
  static api::Volume volume(const std::string& name, const std::string& path) {
    api::Volume out;
    out.name = name;
    out.mount_path = path;
    return out;
  }
  void use_template(const std::string& yaml) { options.workload = parse_workload(yaml).value(); }

  api::CreateSandbox create;
  KubernetesOptions options;
};

TEST_F(Manifests, ASandboxCanBeReadBackFromItsObject) {
  create.timeout = std::chrono::seconds(60);
  create.platform = api::Platform{"linux", "arm64"};
  create.extensions = {{"opensandbox.extensions.note", "any: text+"}};
  const json::object workload = made();
  EXPECT_EQ(text(workload, {"metadata", "labels", "team"}), "a");
  EXPECT_EQ(text(pod(workload), {"nodeSelector", "kubernetes.io/arch"}), "arm64");
  const Instance instance = to_instance(workload, nullptr);
  EXPECT_EQ(instance.id, "box-1");
  EXPECT_EQ(instance.execd_token, "secret-token");
  EXPECT_EQ(instance.entrypoint, create.entrypoint);
  EXPECT_EQ(instance.image, "debian:12");
  const auto marked = read_labels("box-1", instance.labels);
  ASSERT_TRUE(marked) << marked.error().message;
  EXPECT_EQ(marked->metadata, create.metadata);
  EXPECT_EQ(marked->platform, create.platform);
  EXPECT_EQ(marked->expires_at, Timestamp(std::chrono::microseconds(1'700'000'000'500'000)));
  EXPECT_EQ(marked->extensions.at("opensandbox.extensions.note"), "any: text+");
}

TEST_F(Manifests, WordsAndVariablesReachTheContainerAsTheyAre) {
  const json::object workload = made();
  EXPECT_EQ(json::serialize(container(workload).at("command")),
            R"x(["/opt/opensandbox/bootstrap.sh","sh","-c","echo $$HOME $$(id)"])x");
  const std::string env = json::serialize(container(workload).at("env"));
  EXPECT_NE(env.find(R"({"name":"PRICE","value":"5$$"})"), std::string::npos) << env;
  EXPECT_EQ(env.find("stolen"), std::string::npos);
}

TEST_F(Manifests, PodsGetNoMoreThanTheyNeed) {
  const json::object workload = made();
  EXPECT_EQ(pod(workload).at("automountServiceAccountToken"), false);
  EXPECT_EQ(pod(workload).at("restartPolicy"), "Never");
  EXPECT_EQ(pod(workload).at("terminationGracePeriodSeconds"), 1);
  EXPECT_EQ(container(workload).at("securityContext").at("allowPrivilegeEscalation"), false);
  EXPECT_EQ(text(container(workload), {"resources", "requests", "cpu"}), "500m");
  create.resource_requests = api::StringMap{{"cpu", "100m"}};
  EXPECT_EQ(text(container(made()), {"resources", "requests", "cpu"}), "100m");
}

TEST_F(Manifests, APolicyBringsTheSidecarAndTheImageWaitsForIt) {
  create.network_policy = api::NetworkPolicy{"deny", {{"allow", "a.com"}}};
  create.env["OPENSANDBOX_EGRESS_LOG_LEVEL"] = "debug";
  options.egress.image = "egress:1";
  options.egress.limits = {{"memory", "64Mi"}};
  SandboxSpec wanted = spec();
  wanted.egress_token = "t0ken";
  const json::object workload = batch_sandbox(wanted, options, "debian:12");
  EXPECT_EQ(json::serialize(container(workload).at("command")),
            R"x(["/opt/opensandbox/execd","--wait-for-policy","/opt/opensandbox/bootstrap.sh","sh","-c",)x"
            R"x("echo $$HOME $$(id)"])x");
  EXPECT_EQ(json::serialize(container(workload).at("env")).find("OPENSANDBOX_EGRESS"), std::string::npos);
  const json::object& sidecar = pod(workload).at("containers").at(1).as_object();
  EXPECT_EQ(sidecar.at("name"), "egress");
  EXPECT_EQ(json::serialize(sidecar.at("securityContext").at("capabilities")),
            R"({"drop":["ALL"],"add":["NET_ADMIN","SETUID"]})");
  EXPECT_EQ(text(sidecar, {"resources", "limits", "memory"}), "64Mi");
  const std::string env = json::serialize(sidecar.at("env"));
  EXPECT_NE(env.find(R"("OPENSANDBOX_EGRESS_TOKEN","value":"t0ken")"), std::string::npos) << env;
  EXPECT_NE(env.find(R"(\"target\":\"a.com\")"), std::string::npos) << env;
  EXPECT_NE(env.find(R"("OPENSANDBOX_EGRESS_LOG_LEVEL","value":"debug")"), std::string::npos) << env;
  EXPECT_EQ(env.find("DNS_UPSTREAM"), std::string::npos) << "the cluster's resolver";
  EXPECT_EQ(sidecar.at("readinessProbe").at("httpGet").at("httpHeaders").at(0).at("value"), "t0ken");
  // Read back by another server.
  const Instance instance = to_instance(workload, nullptr);
  EXPECT_EQ(instance.egress_token, "t0ken");
  EXPECT_EQ(instance.entrypoint, create.entrypoint);
  EXPECT_FALSE(instance.labels.contains(std::string(kEgressTokenAnnotation)));
}

TEST_F(Manifests, NoTemplateOpensTheWallOfAPolicy) {
  create.network_policy = api::NetworkPolicy{};
  use_template(R"(
spec:
  template:
    spec:
      containers:
        - securityContext: {privileged: true, capabilities: {add: [NET_ADMIN, CHOWN]}}
)");
  const json::object workload = made();
  EXPECT_EQ(container(workload).at("securityContext").at("privileged"), false);
  EXPECT_EQ(json::serialize(container(workload).at("securityContext").at("capabilities").at("add")), R"(["CHOWN"])");
}

TEST_F(Manifests, APooledSandboxIsATaskInThePoolsPod) {
  create.image.reset();
  create.extensions[std::string(api::kPoolRefKey)] = "fast";
  create.timeout = std::chrono::seconds(60);
  use_template("metadata: {labels: {pool: gold}}");
  const json::object workload = pooled_sandbox(spec(), options);
  EXPECT_EQ(text(workload, {"spec", "poolRef"}), "fast");
  EXPECT_EQ(find(workload, {"spec", "template"}), nullptr) << "the controller would make a pod of its own";
  EXPECT_EQ(find(workload, {"metadata", "labels", "pool"}), nullptr);
  EXPECT_NE(text(workload, {"spec", "expireTime"}), "");
  const json::object& process = find(workload, {"spec", "taskTemplate", "spec", "process"})->as_object();
  EXPECT_EQ(json::serialize(process.at("command")),
            R"x(["/opt/opensandbox/bootstrap.sh","sh","-c","echo $HOME $(id)"])x");
  const Instance instance = to_instance(workload, nullptr);
  EXPECT_EQ(instance.execd_token, "secret-token");
  EXPECT_EQ(instance.entrypoint, create.entrypoint);
}

TEST_F(Manifests, AccessTokensAreAnnotationsForAGateway) {
  create.secure_access = true;
  SandboxSpec wanted = spec();
  wanted.access_token = "shown";
  const json::object workload = batch_sandbox(wanted, options, "debian:12");
  EXPECT_EQ(kubernetes::annotation(workload, "opensandbox.io/secure-access-token"), "shown");
  EXPECT_TRUE(read_labels("box-1", to_instance(workload, nullptr).labels)->secure_access);
}

TEST_F(Manifests, AnAgentSandboxCanBeReadBackToo) {
  options.provider = WorkloadProvider::AgentSandbox;
  options.workload =
      parse_workload("spec: {podTemplate: {spec: {nodeSelector: {disk: ssd}}}}", options.provider).value();
  create.timeout = std::chrono::seconds(60);
  const json::object workload = agent_sandbox(spec(), options, "debian:12");
  EXPECT_EQ(text(workload, {"apiVersion"}), "agents.x-k8s.io/v1beta1");
  EXPECT_EQ(text(workload, {"spec", "podTemplate", "spec", "nodeSelector", "disk"}), "ssd");
  EXPECT_EQ(text(workload, {"spec", "shutdownPolicy"}), "Delete");
  EXPECT_EQ(text(workload, {"spec", "podTemplate", "metadata", "labels", "opensandbox.io/id"}), "box-1");
  const Instance instance = to_instance(workload, nullptr);
  EXPECT_EQ(instance.execd_token, "secret-token");
  EXPECT_EQ(instance.image, "debian:12");
  EXPECT_EQ(instance.expires_at, Timestamp(std::chrono::microseconds(1'700'000'000'500'000)));
}

TEST_F(Manifests, NamesOfAgentSandboxesFitTheCluster) {
  EXPECT_EQ(agent_sandbox_name("abc-1"), "abc-1");
  EXPECT_EQ(agent_sandbox_name("7F__x."), "sandbox-7f-x");
  const std::string longest = agent_sandbox_name(std::string(100, 'a')),
                    other = agent_sandbox_name(std::string(101, 'a'));
  EXPECT_EQ(longest.size(), 63u);
  EXPECT_NE(longest, other);
}

TEST_F(Manifests, TheTemplateIsTheBase) {
  use_template(R"(
metadata: {labels: {pool: gold}}
spec:
  expireTime: "2000-01-01T00:00:00Z"
  template:
    spec:
      restartPolicy: OnFailure
      nodeSelector: {disk: ssd}
      volumes: [{name: cache, emptyDir: {}}, {name: opensandbox-bin, hostPath: {path: /}}]
      containers:
        - name: sandbox
          image: ignored
          securityContext: {runAsUser: 1000, allowPrivilegeEscalation: true}
          volumeMounts: [{name: cache, mountPath: /cache}]
)");
  create.platform = api::Platform{"linux", "amd64"};
  const json::object workload = made();
  EXPECT_EQ(text(workload, {"metadata", "labels", "pool"}), "gold");
  EXPECT_EQ(find(workload, {"spec", "expireTime"}), nullptr);
  EXPECT_EQ(text(pod(workload), {"nodeSelector", "disk"}), "ssd");
  EXPECT_EQ(text(pod(workload), {"nodeSelector", "kubernetes.io/arch"}), "amd64");
  EXPECT_EQ(pod(workload).at("restartPolicy"), "OnFailure");
  EXPECT_EQ(json::serialize(pod(workload).at("volumes")),
            R"([{"name":"opensandbox-bin","emptyDir":{}},{"name":"cache","emptyDir":{}}])");
  EXPECT_EQ(container(workload).at("image"), "debian:12");
  EXPECT_EQ(container(workload).at("securityContext").at("runAsUser"), 1000);
  EXPECT_EQ(container(workload).at("securityContext").at("allowPrivilegeEscalation"), true);
  EXPECT_EQ(container(workload).at("volumeMounts").at(1).at("mountPath"), "/cache");
}

TEST_F(Manifests, TemplatesThatCannotBeMergedAreRefused) {
  for (const char* yaml :
       {"[]", "spec: 5", "spec: {template: [1]}", "spec: {template: {spec: x}}", "metadata: no", "{"}) {
    EXPECT_FALSE(parse_workload(yaml)) << yaml;
  }
}

TEST_F(Manifests, TheImagesLoginIsASecret) {
  create.image = api::ImageSpec{"registry.test:5000/a/b:1", api::ImageLogin{"me", "pass"}};
  const auto secret = pull_secret(spec());
  ASSERT_TRUE(secret);
  const std::string config = *decode_base64(text(*secret, {"data", ".dockerconfigjson"}));
  EXPECT_EQ(config, R"({"auths":{"registry.test:5000":{"username":"me","password":"pass","auth":"bWU6cGFzcw=="}}})");
  EXPECT_EQ(std::string(pod(made()).at("imagePullSecrets").at(0).at("name").as_string()), pull_secret_name("box-1"));
  EXPECT_EQ(json::serialize(made()).find("pass\""), std::string::npos);
}

TEST_F(Manifests, VolumesBecomeClaimsAndHostPaths) {
  api::Volume data = volume("data", "/data");
  data.pvc.emplace().claim_name = "c";
  data.pvc->storage = "5Gi";
  api::Volume again = volume("again", "/again");
  again.read_only = true;
  again.sub_path = "x";
  again.pvc = data.pvc;
  api::Volume host = volume("host", "/host");
  host.host = api::HostVolume{"/srv/x"};
  create.volumes = {data, again, host};
  ASSERT_EQ(refused(), "");
  const json::object workload = made();
  EXPECT_EQ(pod(workload).at("volumes").as_array().size(), 3u);
  EXPECT_EQ(json::serialize(container(workload).at("volumeMounts").at(2)),
            R"({"name":"data","mountPath":"/again","readOnly":true,"subPath":"x"})");
  const auto wanted = claims(create, options);
  ASSERT_EQ(wanted.size(), 1u);
  EXPECT_EQ(text(wanted[0].object, {"spec", "resources", "requests", "storage"}), "5Gi");
}

TEST_F(Manifests, RequestsThatNoClusterCanServeAreRefused) {
  create.resource_limits = api::StringMap{{"gpu", "all"}};
  EXPECT_NE(refused().find("/resourceLimits/gpu"), std::string::npos);
  create.resource_limits = api::StringMap{{"pids", "5"}};
  EXPECT_NE(refused().find("/resourceLimits/pids"), std::string::npos);
  create.resource_limits = api::StringMap{{"gpu", "2"}};
  EXPECT_EQ(refused(), "");
  EXPECT_EQ(text(container(made()), {"resources", "limits", "nvidia.com/gpu"}), "2");
  create.volumes = {volume("opensandbox-bin", "/x")};
  EXPECT_NE(refused().find("/volumes/0/name"), std::string::npos);
  create.volumes.clear();
  use_template("spec: {template: {spec: {nodeSelector: {kubernetes.io/arch: amd64}}}}");
  create.platform = api::Platform{"linux", "arm64"};
  EXPECT_NE(refused().find("/platform"), std::string::npos);
}

}  // namespace
}  // namespace osb::runtime
