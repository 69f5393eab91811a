#include "sandboxd/sandbox/sandbox_record.h"

#include <fstream>

#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace osb::sandboxd {
namespace {

SandboxRecord sample() {
  SandboxRecord record;
  record.spec.id = record.status.id = "a";
  record.spec.image = "debian";
  record.spec.login = api::native::RegistryLogin{"me", "hunter2"};
  record.status.execd_token = "t";
  record.slot = 7;
  record.process = kernel::ProcessIdentity{"boot", 12, 34};
  record.layers = {image::Digest::of("x")};
  record.snapshots = {"s"};
  record.volumes_to_delete = {"v"};
  record.removing = true;
  record.network_policy = PolicyRecord{
      .policy =
          *policy::parse_policy(R"({"egress":[{"action":"allow","target":"A.com"},{"action":"deny","ports":[25]}]})"),
      .revision = 7};
  record.status.egress_token = "secret";
  return record;
}

TEST(SandboxRecord, IsReadBackAsItWasWritten) {
  const testing::TempDir dir;
  ASSERT_TRUE(save_record(dir.path().string(), sample()));
  const auto again = load_record(dir.path().string());
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->slot, 7u);
  EXPECT_EQ(again->process, sample().process);
  EXPECT_EQ(again->layers, sample().layers);
  EXPECT_EQ(again->snapshots, sample().snapshots);
  EXPECT_EQ(again->volumes_to_delete, sample().volumes_to_delete);
  EXPECT_EQ(again->status.execd_token, "t");
  EXPECT_TRUE(again->removing);
  EXPECT_EQ(again->network_policy, sample().network_policy);
  EXPECT_EQ(again->status.egress_token, "secret");
}

TEST(SandboxRecord, OfAVersionWithoutPoliciesHasNone) {
  const testing::TempDir dir;
  std::ofstream(dir / "record.json") << R"({"spec":{"id":"a","image":"debian"},"status":{"id":"a"}})";
  const auto old = load_record(dir.path().string());
  ASSERT_TRUE(old) << old.error().message;
  EXPECT_FALSE(old->network_policy);
  EXPECT_EQ(old->status.egress_token, "");
}

TEST(SandboxRecord, APolicyThatCannotBeReadIsNoMissingPolicy) {
  const testing::TempDir dir;
  for (const char* policy : {R"({"revision":1})", R"({"policy":{"defaultAction":"block"},"revision":1})",
                             R"({"policy":{},"revision":0})", R"([])"}) {
    std::ofstream(dir / "record.json") << R"({"spec":{"id":"a","image":"debian"},"status":{"id":"a"},"network_policy":)"
                                       << policy << "}";
    EXPECT_FALSE(load_record(dir.path().string())) << policy;
  }
}

// A record that an older sandboxd wrote for `osb sandbox create --entrypoint "tail -f /dev/null"`.
constexpr const char* kEntrypointInALabel =
    R"({"spec":{"id":"75eaf6f9-c5d6-4d1f-9cf5-41a92983d647","image":"host","snapshot":"","pull":"missing",)"
    R"("platform":"","entrypoint":["tail","-f","/dev/null"],"env":{},"user":"","cwd":"","hostname":"kept",)"
    R"("limits":{"memory_bytes":2147483648,"cpu_millis":1000},"ulimits":{},"volumes":[],"network":"bridge",)"
    R"("ports":[],"dns":[],"no_new_privileges":true,"nested_user_namespaces":false,"read_only_root":false,)"
    R"("runtime":"","gpus":"","labels":{"name":"kept",)"
    R"("opensandbox.io/entrypoint":"[\"tail -f /dev/null\"]",)"
    R"("opensandbox.io/expires-at":"2026-11-16T14:15:54.011095+00:00",)"
    R"("opensandbox.io/id":"75eaf6f9-c5d6-4d1f-9cf5-41a92983d647"}},)"
    R"("status":{"id":"75eaf6f9-c5d6-4d1f-9cf5-41a92983d647","state":"creating","reason":"",)"
    R"("message":"starting","image":"host","snapshot":"","created_at":"2026-11-16T13:15:54.012021Z",)"
    R"("network":"bridge","address":"10.91.0.2","ports":[],)"
    R"("execd_socket":"/run/opensandbox/execd/75eaf6f9-c5d6-4d1f-9cf5-41a92983d647.sock",)"
    R"("execd_token":"6bf58eb116e34301bc63641a131a14bc6f850b6e89234f5d9ee06c4103ce40f9","pid":7996,)"
    R"("labels":{"name":"kept","opensandbox.io/entrypoint":"[\"tail -f /dev/null\"]",)"
    R"("opensandbox.io/expires-at":"2026-11-16T14:15:54.011095+00:00",)"
    R"("opensandbox.io/id":"75eaf6f9-c5d6-4d1f-9cf5-41a92983d647"},)"
    R"("started_at":"2026-11-16T13:15:54.014627Z"},"layers":[],"snapshots":[],)"
    R"("image_config":"{\"os\":\"linux\",\"architecture\":\"amd64\",)"
    R"(\"config\":{\"Env\":[\"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\"],)"
    R"(\"Entrypoint\":[],\"Cmd\":[],\"User\":\"\",\"WorkingDir\":\"/\",\"StopSignal\":\"\",\"Labels\":{}},)"
    R"(\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[]}}","volumes":[],"volumes_to_delete":[],)"
    R"("removing":false,"slot":0,"process":{"boot_id":"91e36e63-4166-481a-8582-501f988fe1aa","pid":7996,)"
    R"("start_ticks":2371299}})";

TEST(SandboxRecord, OfAnOlderVersionIsMigrated) {
  const testing::TempDir dir;
  std::ofstream(dir.path() / "record.json") << kEntrypointInALabel;
  const auto old = load_record(dir.path().string());
  ASSERT_TRUE(old) << old.error().message;
  ASSERT_TRUE(save_record(dir.path().string(), *old));
  const auto again = load_record(dir.path().string());
  ASSERT_TRUE(again) << again.error().message;
  const std::vector<std::string> requested{"tail -f /dev/null"};
  for (const SandboxRecord& record : {*old, *again}) {
    EXPECT_EQ(record.spec.entrypoint, (std::vector<std::string>{"tail", "-f", "/dev/null"}));
    EXPECT_EQ(record.spec.requested_entrypoint, requested);
    EXPECT_EQ(record.status.requested_entrypoint, requested);
    EXPECT_EQ(record.spec.labels, record.status.labels);
    EXPECT_EQ(record.status.labels.size(), 3u) << "name, expires-at and id; not the entrypoint";
    EXPECT_EQ(record.status.pid, 7996);
  }
}

TEST(SandboxRecord, HoldsNoPasswordAndIsForRootOnly) {
  const testing::TempDir dir;
  ASSERT_TRUE(save_record(dir.path().string(), sample()));
  std::ifstream file(dir.path() / "record.json");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(text.find("hunter2"), std::string::npos);
  EXPECT_EQ(std::filesystem::status(dir.path() / "record.json").permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST(SandboxRecord, SaysWhatIsWrongWithADamagedOne) {
  const testing::TempDir dir;
  EXPECT_EQ(load_record(dir.path().string()).error().code, Code::NotFound);
  std::ofstream(dir.path() / "record.json") << R"({"spec":{"id":"a","image":"x"},"status":{"id":7}})";
  const auto broken = load_record(dir.path().string());
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().code, Code::InvalidRequest);
  EXPECT_NE(broken.error().message.find("record.json"), std::string::npos);
}

}  // namespace
}  // namespace osb::sandboxd
