#include "api/lifecycle_create.h"

#include "api/lifecycle_testing.h"

namespace osb::api {
namespace {

using std::chrono::seconds;
using testing::kParameter;
using testing::refused;

constexpr std::string_view kMinimal = R"({"image":{"uri":"debian"},"entrypoint":["sh"],"resourceLimits":{})";

// The smallest request that is accepted, with these fields added.
std::string with(std::string_view fields) {
  return std::string(kMinimal) + (fields.empty() ? "" : ",") + std::string(fields) + "}";
}

TEST(CreateSandboxRequest, TakesEveryField) {
  const auto got = decode_create_sandbox(R"({
    "image":{"uri":" registry.example.com/tools:1 ","auth":{"username":"robot","password":"hunter2"}},
    "platform":{"os":" Linux ","arch":"AMD64"}, "timeout":"120",
    "resourceLimits":{"cpu":"500m","memory":"512Mi"}, "resourceRequests":{"cpu":"1"},
    "env":{"A":"1","EMPTY":"","GONE":null}, "metadata":{"team":"a"}, "entrypoint":["sh","-c","true"],
    "networkPolicy":{"defaultAction":"deny","egress":[{"action":"allow","target":"*.example.com"}]},
    "credentialProxy":{"enabled":"yes"}, "secureAccess":1,
    "volumes":[
      {"name":"data","mountPath":"/data","readOnly":true,"subPath":"a/b","host":{"path":"/srv/data"}},
      {"name":"cache","mountPath":"/cache","pvc":{"claimName":"cache","createIfNotExists":false,
        "deleteOnSandboxTermination":true,"storageClass":"fast","storage":"1.5Gi","accessModes":["ReadWriteOnce"]}},
      {"name":"bucket","mountPath":"/oss","ossfs":{"bucket":"abc","endpoint":"e","version":"1.0","options":["x"],
        "accessKeyId":"id","accessKeySecret":"hunter3"}}],
    "extensions":{"access.renew.extend.seconds":"300"}, "unknown":{"deep":[1]}})");
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->image->uri, "registry.example.com/tools:1");
  EXPECT_EQ(got->image->auth->username, "robot");
  EXPECT_EQ(got->platform, (Platform{"linux", "amd64"}));
  EXPECT_EQ(got->timeout, seconds(120));
  EXPECT_EQ(got->resource_limits->at("memory"), "512Mi");
  EXPECT_EQ(got->resource_requests->at("cpu"), "1");
  EXPECT_EQ(got->env, (StringMap{{"A", "1"}, {"EMPTY", ""}}));
  EXPECT_EQ(got->metadata, (StringMap{{"team", "a"}}));
  EXPECT_EQ(got->entrypoint, (std::vector<std::string>{"sh", "-c", "true"}));
  EXPECT_EQ(got->network_policy->default_action, "deny");
  EXPECT_EQ(got->network_policy->egress, (std::vector<NetworkRule>{{"allow", "*.example.com"}}));
  EXPECT_TRUE(got->credential_proxy);
  EXPECT_TRUE(got->secure_access);
  ASSERT_EQ(got->volumes.size(), 3u);
  EXPECT_EQ(got->volumes[0].host->path, "/srv/data");
  EXPECT_EQ(got->volumes[0].sub_path, "a/b");
  EXPECT_TRUE(got->volumes[0].read_only);
  EXPECT_FALSE(got->volumes[1].pvc->create_if_not_exists);
  EXPECT_TRUE(got->volumes[1].pvc->delete_on_sandbox_termination);
  EXPECT_EQ(got->volumes[1].pvc->storage, "1.5Gi");
  EXPECT_EQ(got->volumes[2].ossfs->version, "1.0");

  const auto again = decode_create_sandbox(encode_create_sandbox(*got, true));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, *got) << "a record gives back what was asked for";
  const std::string shown = encode_create_sandbox(*got, false);
  EXPECT_EQ(shown.find("hunter"), std::string::npos) << shown;
}

TEST(CreateSandboxRequest, TakesTheOtherSpellingsOfNamesAndValues) {
  const auto got = decode_create_sandbox(
      R"({"snapshot_id":" s1 ","resource_limits":{},"timeout":60.0,"secure_access":"OFF","network_policy":{},
          "volumes":[{"name":"a","mount_path":"/x","read_only":"t","pvc":{"claim_name":"c"}}]})");
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->snapshot_id, "s1");
  EXPECT_EQ(got->timeout, seconds(60));
  EXPECT_TRUE(got->network_policy) << "an empty policy is one";
  EXPECT_TRUE(got->volumes[0].read_only);
  EXPECT_EQ(got->entrypoint, (std::vector<std::string>{"tail", "-f", "/dev/null"})) << "a snapshot's default";
}

TEST(CreateSandboxRequest, NullIsAbsent) {
  const auto got = decode_create_sandbox(with(
      R"("timeout":null,"env":null,"metadata":null,"volumes":null,"platform":null,"snapshotId":null,
         "networkPolicy":null,"credentialProxy":null,"extensions":null,"resourceRequests":null)"));
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_FALSE(got->timeout);
  EXPECT_FALSE(got->metadata);
  EXPECT_FALSE(got->network_policy);
  EXPECT_TRUE(decode_create_sandbox(with(R"("metadata":{})"))->metadata) << "{} is echoed";
}

TEST(CreateSandboxRequest, ABlankSourceIsNone) {
  EXPECT_TRUE(decode_create_sandbox(with(R"("snapshotId":"  ")")));
  const auto got = decode_create_sandbox(R"({"image":{"uri":" "},"snapshotId":"s","resourceLimits":{}})");
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_FALSE(got->image);
}

TEST(CreateSandboxRequest, WithAPoolTheRestIsOptional) {
  const auto got = decode_create_sandbox(R"({"extensions":{"poolRef":" warm "}})");
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->pool_ref(), "warm");
  EXPECT_TRUE(refused(decode_create_sandbox(R"({"extensions":{"poolRef":"  "}})"), 422, kParameter, "body: one of"));
}

TEST(CreateSandboxRequest, ErrorsAgainstTheSchemaAre422AndNameThePlace) {
  const struct {
    std::string body, message;
  } rows[] = {
      {"", "body: empty"},
      {"{", "body: invalid JSON at byte 1"},
      {"[]", "body: expected an object"},
      {"\xff", "body: invalid UTF-8"},
      {"{}", "body: one of image and snapshotId is needed"},
      {R"({"image":{"uri":"a"},"resourceLimits":{}})", "/entrypoint: required with an image"},
      {R"({"image":{"uri":"a"},"entrypoint":["x"]})", "/resourceLimits: required"},
      {R"({"image":{},"entrypoint":["x"],"resourceLimits":{}})", "/image/uri: required"},
      {R"({"image":"a","entrypoint":["x"],"resourceLimits":{}})", "/image: expected an object"},
      {R"({"image":{"uri":5},"entrypoint":["x"],"resourceLimits":{}})", "/image/uri: expected a string"},
      {R"({"image":{"uri":"a","auth":{"username":"x"}},"entrypoint":["x"],"resourceLimits":{}})",
       "/image/auth/password: required"},
      {R"({"image":{"uri":"a","auth":{"password":"x"}},"entrypoint":["x"],"resourceLimits":{}})",
       "/image/auth/username: required"},
      {with(R"("snapshotId":"s")"), "body: image and snapshotId cannot be combined"},
      {with(R"("entrypoint":[])"), "/entrypoint: must not be empty"},
      {with(R"("entrypoint":"sh")"), "/entrypoint: expected an array of strings"},
      {with(R"("entrypoint":["sh",1])"), "/entrypoint/1: expected a string"},
      {with(R"("entrypoint":["a\u0000b"])"), "/entrypoint: must not contain a NUL byte"},
      {with(R"("platform":{"os":"linux"})"), "/platform/arch: required"},
      {with(R"("platform":{"arch":"amd64"})"), "/platform/os: required"},
      {with(R"("timeout":59)"), "/timeout: expected an integer of at least 60"},
      {with(R"("timeout":0)"), "/timeout: expected an integer of at least 60"},
      {with(R"("timeout":-1)"), "/timeout: expected an integer of at least 60"},
      {with(R"("timeout":60.5)"), "/timeout: expected an integer"},
      {with(R"("timeout":"soon")"), "/timeout: expected an integer"},
      {with(R"("resourceLimits":{"cpu":1})"), "/resourceLimits/cpu: expected a string"},
      {with(R"("resourceLimits":{"cpu":null})"), "/resourceLimits/cpu: expected a string"},
      {with(R"("resourceRequests":[])"), "/resourceRequests: expected an object of strings"},
      {with(R"("env":{"A":1})"), "/env/A: expected a string"},
      {with(R"("metadata":{"a/b":true})"), "/metadata/a~1b: expected a string"},
      {with(R"("metadata":{"a":null})"), "/metadata/a: expected a string"},
      {with(R"("extensions":{"a":1})"), "/extensions/a: expected a string"},
      {with(R"("secureAccess":"maybe")"), "/secureAccess: expected true or false"},
      {with(R"("networkPolicy":[])"), "/networkPolicy: expected an object"},
      {with(R"("networkPolicy":{"egress":[{"target":"a"}]})"), "/networkPolicy/egress/0/action: required"},
      {with(R"("networkPolicy":{"egress":[{"action":"allow","target":""}]})"),
       "/networkPolicy/egress/0/target: required"},
      {with(R"("networkPolicy":{"egress":[{"action":"allow"}]})"), "/networkPolicy/egress/0/target: required"},
      {with(R"("networkPolicy":{"egress":[{"action":"allow","target":"","ports":[80]}]})"),
       "/networkPolicy/egress/0/target: required"},
      {with(R"("networkPolicy":{"egress":[{"action":"allow","ports":[]}]})"),
       "/networkPolicy/egress/0/target: required"},
      {with(R"("networkPolicy":{"egress":[{"action":"allow","ports":80}]})"),
       "/networkPolicy/egress/0/ports: expected an array"},
      {with(R"("networkPolicy":{"egress":[{"action":"allow","ports":[0]}]})"),
       "/networkPolicy/egress/0/ports: a port is a number"},
      {with(R"("credentialProxy":{"enabled":true})"), "/credentialProxy: needs a networkPolicy"},
      {with(R"("env":{"OPENSANDBOX_LIFECYCLE":"{}"})"), "/env: OPENSANDBOX_LIFECYCLE is reserved. Use the lifecycle"},
      {with(R"("lifecycle":[])"), "/lifecycle: expected an object"},
      {with(R"("templateId":7)"), "/templateId: expected a string"},
      {R"({"snapshotId":"s","extensions":{"poolRef":"p"}})", "/snapshotId: cannot be combined"},
  };
  for (const auto& row : rows) {
    EXPECT_TRUE(refused(decode_create_sandbox(row.body), 422, kParameter, row.message)) << row.body;
  }
}

TEST(CreateRulesTest, UnsupportedRequestsAre400WithTheirCode) {
  CreateRules rules;
  rules.now = Timestamp(seconds(1'700'000'000));
  rules.max_timeout = seconds(3600);
  rules.no_secure_access = "needs a gateway";
  rules.no_windows = "this backend runs Linux";
  CreateRules no_policy = rules;
  no_policy.no_network_policy = "not yet";
  CreateRules no_proxy = rules;
  no_proxy.no_credential_proxy = "not yet";
  CreateRules endless = rules;
  endless.max_timeout.reset();
  CreateRules docker = rules;
  docker.backend = "DOCKER";
  CreateRules cluster = rules;
  cluster.kubernetes_quantities = true;
  const struct {
    const CreateRules& rules;
    std::string body;
    std::string_view reason, message;
  } rows[] = {
      {rules, with(R"("entrypoint":[""])"), "NATIVE::INVALID_ENTRYPOINT", "/entrypoint: the first word"},
      {docker, with(R"("entrypoint":["  ","x"])"), "DOCKER::INVALID_ENTRYPOINT", "/entrypoint: the first word"},
      {rules, with(R"("metadata":{"a b":"x"})"), "SANDBOX::INVALID_METADATA_LABEL", R"(/metadata: key "a b")"},
      {rules, with(R"("platform":{"os":"plan9","arch":"amd64"})"), kParameter, "/platform/os: \"plan9\" is not"},
      {rules, with(R"("platform":{"os":"linux","arch":"riscv64"})"), kParameter, "/platform/arch: \"riscv64\" is not"},
      {rules, with(R"("platform":{"os":"windows","arch":"amd64"})"), kParameter, "/platform/os: this backend runs"},
      {rules, with(R"("timeout":3601)"), kParameter, "/timeout: at most 3600 s"},
      {endless, with(R"("timeout":9223372036854775807)"), kParameter, "/timeout: the end would lie behind"},
      {endless, with(R"("timeout":260000000000)"), kParameter, "/timeout: the end would lie behind"},
      {rules, with(R"("resourceLimits":{"memory":"2Gx"})"), kParameter, "/resourceLimits/memory: "},
      {rules, with(R"("resourceLimits":{"memory":"1.5Gi"})"), kParameter, "/resourceLimits/memory: "},
      {rules, with(R"("resourceLimits":{"cpu":"0"})"), kParameter, "/resourceLimits/cpu: "},
      {rules, with(R"("resourceLimits":{"gpu":"some"})"), kParameter, "/resourceLimits/gpu: "},
      {rules, with(R"("resourceLimits":{"memroy":"1Gi"})"), kParameter,
       R"(/resourceLimits: "memroy": there is no such limit; did you mean memory? Known limits: cpu, memory, gpu, disk,)"},
      {rules, with(R"("resourceRequests":{"cpu":"x"})"), kParameter, "/resourceRequests/cpu: "},
      {cluster, with(R"("resourceLimits":{"memory":"2gb"})"), kParameter, "/resourceLimits/memory: "},
      {cluster, with(R"("resourceLimits":{"gpu":"all"})"), kParameter, "/resourceLimits/gpu: "},
      {rules, with(R"("env":{"":"x"})"), kParameter, "/env: the name"},
      {rules, with(R"("env":{"A=B":"x"})"), kParameter, "/env: the name"},
      {rules, with(R"("env":{"A":"x\u0000"})"), kParameter, "/env: the value"},
      {rules, with(R"("env":{"OPENSANDBOX_EGRESS_TOKEN":"x"})"), kParameter,
       "/env: the name \"OPENSANDBOX_EGRESS_TOKEN\""},
      {rules, with(R"("lifecycle":{"periodic":[{"name":"a","schedule":"x","command":["b"]}]})"), kParameter,
       "/lifecycle/periodic/0/schedule: expected five"},
      {rules, with(R"("secureAccess":true)"), kParameter, "/secureAccess: needs a gateway"},
      {no_policy, with(R"("networkPolicy":{})"), kParameter, "/networkPolicy: not yet"},
      {no_proxy, with(R"("networkPolicy":{},"credentialProxy":{"enabled":true})"), kParameter,
       "/credentialProxy: not yet"},
      {rules,
       with(R"("networkPolicy":{},"credentialProxy":{"enabled":true},)"
            R"("env":{"OPENSANDBOX_EGRESS_MITMPROXY_SSL_INSECURE":"true"})"),
       kParameter, "/env/OPENSANDBOX_EGRESS_MITMPROXY_SSL_INSECURE: the certificates"},
      {rules,
       with(R"("networkPolicy":{},"env":{"OPENSANDBOX_EGRESS_MITMPROXY_SSL_INSECURE":"on",)"
            R"("OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT":"1"})"),
       kParameter, "/env/OPENSANDBOX_EGRESS_MITMPROXY_SSL_INSECURE: the certificates"},
      {rules, with(R"("networkPolicy":{},"extensions":{"policy.verify_sni":"yes"})"), kParameter,
       "/extensions/policy.verify_sni: expected \"true\""},
      {rules, with(R"("extensions":{"policy.verify_sni":"true"})"), kParameter,
       "/extensions/policy.verify_sni: needs a networkPolicy"},
      {no_proxy, with(R"("networkPolicy":{},"extensions":{"policy.verify_sni":"true"})"), kParameter,
       "/extensions/policy.verify_sni: not yet"},
      {rules, with(R"("volumes":[{"name":"a","mountPath":"/x","host":{"path":"/etc"}}])"),
       "VOLUME::HOST_PATH_NOT_ALLOWED", "/volumes/0/host/path: "},
  };
  for (const auto& row : rows) {
    const auto create = decode_create_sandbox(row.body);
    ASSERT_TRUE(create) << row.body << ": " << create.error().message;
    EXPECT_TRUE(check_create_source(*create, row.rules));
    EXPECT_TRUE(refused(check_create(*create, row.rules), 400, row.reason, row.message)) << row.body;
  }
}

TEST(CreateRulesTest, ATemplateBringsTheWorkloadAlong) {
  const auto create =
      decode_create_sandbox(R"({"templateId":" t ","timeout":60,"metadata":{"a":"b"},"secureAccess":false})");
  ASSERT_TRUE(create) << create.error().message;
  EXPECT_EQ(create->template_id, "t");
  EXPECT_TRUE(refused(decode_create_sandbox(with(R"("templateId":"t","volumes":[],"timeout":60)")), 422, kParameter,
                      "/templateId: cannot be combined with entrypoint, image, resourceLimits, volumes"));
  EXPECT_TRUE(refused(decode_create_sandbox(R"({"templateId":"t"})"), 422, kParameter, "/timeout: required"));
  EXPECT_TRUE(decode_create_sandbox(with(R"("templateId":" ","lifecycle":{"preStart":null})")));
}

TEST(CreateRulesTest, ARecordHasTheWorkloadBesideTheTemplate) {
  auto create = *decode_create_sandbox(R"({"templateId":"t","timeout":60})");
  create.snapshot_id = "s";
  create.entrypoint = {"sleep"};
  create.env = {{"A", "b"}};
  create.resource_limits = StringMap{{"cpu", "1"}};
  const auto again = decode_recorded_create(encode_create_sandbox(create, true));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, create);
}

TEST(CreateRulesTest, SupportedRequestsPass) {
  CreateRules rules;
  rules.max_timeout = seconds(3600);
  rules.allowed_host_paths = {"/srv"};
  CreateRules cluster = rules;
  cluster.kubernetes_quantities = true;
  const std::string bodies[] = {
      with(""),
      with(R"("timeout":3600,"resourceLimits":{"cpu":"1","memory":"2Gi","gpu":"2","disk":"10Gi"})"),
      with(R"("networkPolicy":{"defaultAction":"allow","egress":[{"action":"deny","target":"10.0.0.0/8"}]})"),
      with(R"("networkPolicy":{"egres":[],"egress":[{"action":"deny","ports":[25,465],"prots":[1]}]})"),
      with(R"("volumes":[{"name":"a","mountPath":"/x","host":{"path":"/srv/a"}}])"),
      with(R"("platform":{"os":"windows","arch":"arm64"},"secureAccess":true)"),
      with(R"("metadata":{"example.com/team":"a.b-c_d","x":""})"),
  };
  for (const std::string& body : bodies) {
    const auto create = decode_create_sandbox(body);
    ASSERT_TRUE(create) << create.error().message;
    for (const CreateRules* each : {&rules, &cluster}) {
      const auto ok = check_create(*create, *each);
      EXPECT_TRUE(ok) << body << ": " << ok.error().message;
    }
  }
}

TEST(CreateRulesTest, TheOrderIsTheContracts) {
  // Each has all the faults of the rows behind it: the earliest is reported.
  CreateRules rules;
  rules.max_timeout = seconds(60);
  rules.no_secure_access = "no";
  rules.no_network_policy = "no";
  auto create = *decode_create_sandbox(
      with(R"("entrypoint":[""],"metadata":{"":""},"platform":{"os":"x","arch":"y"},"timeout":61,"secureAccess":true,
              "networkPolicy":{},"volumes":[{"name":"a","mountPath":"/x","host":{"path":"/etc"}}])"));
  EXPECT_EQ(check_create(create, rules).error().reason, "NATIVE::INVALID_ENTRYPOINT");
  create.entrypoint = {"sh"};
  EXPECT_EQ(check_create(create, rules).error().reason, "SANDBOX::INVALID_METADATA_LABEL");
  create.metadata.reset();
  EXPECT_TRUE(refused(check_create(create, rules), 400, kParameter, "/platform/os"));
  create.platform.reset();
  EXPECT_TRUE(refused(check_create(create, rules), 400, kParameter, "/timeout"));
  create.timeout.reset();
  EXPECT_TRUE(refused(check_create(create, rules), 400, kParameter, "/secureAccess"));
  create.secure_access = false;
  EXPECT_TRUE(refused(check_create(create, rules), 400, kParameter, "/networkPolicy"));
  create.network_policy.reset();
  EXPECT_EQ(check_create(create, rules).error().reason, "VOLUME::HOST_PATH_NOT_ALLOWED");
}

TEST(CreateRulesTest, PoolsAreABackendsMatter) {
  CreateRules rules;
  const auto plain = *decode_create_sandbox(R"({"extensions":{"poolRef":"p"}})");
  EXPECT_TRUE(refused(check_create_source(plain, rules), 400, "SANDBOX::UNSUPPORTED_POOL_REF", "/extensions/poolRef"));
  rules.pools = true;
  EXPECT_TRUE(check_create_source(plain, rules));
  EXPECT_TRUE(check_create(plain, rules));
  const auto platform =
      *decode_create_sandbox(R"({"extensions":{"poolRef":"p"},"platform":{"os":"linux","arch":"amd64"}})");
  EXPECT_TRUE(refused(check_create_source(platform, rules), 400, kParameter, "/platform"));
  const auto volumes = *decode_create_sandbox(
      R"({"extensions":{"poolRef":"p"},"volumes":[{"name":"a","mountPath":"/x","host":{"path":"/srv"}}]})");
  EXPECT_TRUE(refused(check_create_source(volumes, rules), 400, kParameter, "/volumes"));
  const auto policy = *decode_create_sandbox(R"({"extensions":{"poolRef":"p"},"networkPolicy":{}})");
  EXPECT_TRUE(refused(check_create_source(policy, rules), 400, kParameter, "/networkPolicy"));
  const auto proxy = *decode_create_sandbox(R"({"extensions":{"poolRef":"p"},"credentialProxy":{"enabled":true}})");
  EXPECT_TRUE(refused(check_create_source(proxy, rules), 400, kParameter, "/credentialProxy"));
}

TEST(CreateRulesTest, AccessRenewalIsAnIntegerFrom300To86400) {
  const auto parse = [](std::string text) {
    CreateSandbox create;
    create.extensions[std::string(kAccessRenewKey)] = text;
    return access_renew_seconds(create);
  };
  EXPECT_EQ(access_renew_seconds({}).value(), std::nullopt);
  EXPECT_EQ(parse(" 300 ").value(), seconds(300));
  EXPECT_EQ(parse("86400").value(), seconds(86400));
  for (const char* bad : {"", " ", "299", "86401", "300.0", "5m", "-300", "0x200", "99999999999999999999"}) {
    EXPECT_TRUE(refused(parse(bad), 400, kParameter, "/extensions/access.renew.extend.seconds: expected")) << bad;
  }
}

TEST(CreateRulesTest, ARenewalPolicyIsTheExtensionUnderAnotherName) {
  CreateSandbox create;
  create.lifecycle.renew = seconds(600);
  EXPECT_EQ(access_renew_seconds(create).value(), seconds(600));
  create.extensions[std::string(kAccessRenewKey)] = "600";
  EXPECT_EQ(access_renew_seconds(create).value(), seconds(600));
  create.extensions[std::string(kAccessRenewKey)] = "601";
  EXPECT_TRUE(
      refused(access_renew_seconds(create), 400, kParameter, "/lifecycle/renewalPolicy/extendSeconds: differs"));
}

}  // namespace
}  // namespace osb::api
