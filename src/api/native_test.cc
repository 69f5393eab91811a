#include "api/native.h"

#include <boost/json/serialize.hpp>
#include <gtest/gtest.h>

#include "api/json.h"

namespace osb::api::native {
namespace {

std::string text(const boost::json::value& value) { return boost::json::serialize(value); }

TEST(NativeApi, ACreateSurvivesTheWayThereAndBack) {
  CreateSandbox create;
  create.id = "a-1";
  create.image = "debian";
  create.pull = PullPolicy::Always;
  create.entrypoint = {"sh", "-c", "true"};
  create.requested_entrypoint = {"sh -c true"};
  create.env = {{"A", "1"}};
  create.user = "1000:1000";
  create.limits.memory_bytes = 1 << 28;
  create.ulimits = {{"nofile", 1024}};
  create.volumes = {{.kind = VolumeKind::Tmpfs, .source = {}, .sub_path = {}, .target = "/x", .size_bytes = 4096}};
  create.network = NetworkMode::None;
  create.ports = {{8080, 0, "tcp"}};
  create.labels = {{"k", "v"}};
  create.no_new_privileges = false;
  const auto again = decode_create_sandbox(*parse_json(text(encode(create))));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(text(encode(*again)), text(encode(create)));
  EXPECT_EQ(again->volumes, create.volumes);
  EXPECT_EQ(again->limits, create.limits);
}

TEST(NativeApi, ALoginIsWrittenOnlyWhenAskedFor) {
  CreateSandbox create;
  create.id = "a";
  create.image = "debian";
  create.login = RegistryLogin{"me", "hunter2"};
  EXPECT_EQ(text(encode(create)).find("hunter2"), std::string::npos);
  const auto again = decode_create_sandbox(encode(create, Secrets::Include));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->login->password, "hunter2");
}

TEST(NativeApi, APolicyTravelsWithItsTokenAndOnlyWhenAskedFor) {
  CreateSandbox create;
  create.id = "a";
  create.image = "debian";
  create.network_policy = NetworkPolicy{"deny", {{"allow", "a.com"}, {"deny", "", {25}}}};
  create.egress_token = "abcdefgh-1234567_";
  EXPECT_EQ(text(encode(create)).find("abcdefgh"), std::string::npos);
  const auto again = decode_create_sandbox(encode(create, Secrets::Include));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->network_policy, create.network_policy);
  EXPECT_EQ(again->egress_token, create.egress_token);
  for (const char* body : {R"({"id":"a","image":"i","egressToken":"abcdefgh-1234567_"})",
                           R"({"id":"a","image":"i","networkPolicy":{},"egressToken":"a b"})",
                           R"({"id":"a","image":"i","networkPolicy":[]})",
                           R"({"id":"a","image":"i","networkPolicy":{"egress":[{"action":"allow"}]}})"}) {
    EXPECT_FALSE(decode_create_sandbox(*parse_json(body))) << body;
  }
}

TEST(NativeApi, ASandboxSurvivesTheWayThereAndBack) {
  SandboxStatus sandbox;
  sandbox.id = "a";
  sandbox.state = State::Exited;
  sandbox.exit = Exit{137, 9, true};
  sandbox.started_at = Timestamp(std::chrono::seconds(1'600'000'000));
  sandbox.ended_at = Timestamp(std::chrono::seconds(1'700'000'000));
  sandbox.requested_entrypoint = {"sh -c true"};
  sandbox.labels = {{"k", "v"}};
  sandbox.egress_token = "secret";
  const auto again = decode_sandbox(encode(sandbox));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(text(encode(*again)), text(encode(sandbox)));
  EXPECT_EQ(again->requested_entrypoint, sandbox.requested_entrypoint);
  EXPECT_EQ(again->egress_token, "secret");
}

TEST(NativeApi, AnEntrypointInALabelOfAnOlderVersionMovesToItsField) {
  SandboxStatus old;
  old.id = "a";
  for (const auto& [label, words] : std::initializer_list<std::pair<std::string, std::vector<std::string>>>{
           {R"(["sh","-c","x"])", {"sh", "-c", "x"}}, {"{not json", {}}, {R"("sh")", {}}, {R"([1,"sh"])", {"sh"}}}) {
    old.labels = {{"k", "v"}, {"opensandbox.io/entrypoint", label}};
    const auto moved = decode_sandbox(encode(old));
    ASSERT_TRUE(moved) << label;
    EXPECT_EQ(moved->requested_entrypoint, words) << label;
    EXPECT_EQ(moved->labels, (std::map<std::string, std::string>{{"k", "v"}})) << label;
  }
}

TEST(NativeApi, WhatIsWrongIsNamed) {
  const struct {
    const char* why;
    const char* body;
    const char* names;
  } rows[] = {
      {"no id", R"({"image":"x"})", "/id"},
      {"path in an id", R"({"id":"../x","image":"x"})", "/id"},
      {"neither image nor snapshot", R"({"id":"x"})", "/image"},
      {"both", R"({"id":"x","image":"a","snapshot":"b"})", "/image"},
      {"unknown network", R"({"id":"x","image":"a","network":"wifi"})", "/network"},
      {"negative limit", R"({"id":"x","image":"a","limits":{"pids":-1}})", "/limits/pids"},
      {"a limit that is no number", R"({"id":"x","image":"a","ulimits":{"nofile":"many"}})", "/ulimits/nofile"},
      {"ulimits of the wrong type", R"({"id":"x","image":"a","ulimits":[1]})", "/ulimits"},
      {"equals sign in a name", R"({"id":"x","image":"a","env":{"A=B":"1"}})", "/env"},
      {"NUL in a word", R"({"id":"x","image":"a","entrypoint":["a\u0000b"]})", "/entrypoint"},
      {"port out of range", R"({"id":"x","image":"a","ports":[{"port":70000}]})", "/ports/0/port"},
      {"unknown kind", R"({"id":"x","image":"a","volumes":[{"kind":"nfs","target":"/a"}]})", "/volumes/0/kind"},
  };
  for (const auto& row : rows) {
    const auto decoded = decode_create_sandbox(*parse_json(row.body));
    ASSERT_FALSE(decoded) << row.why;
    EXPECT_NE(decoded.error().message.find(row.names), std::string::npos) << row.why << ": " << decoded.error().message;
  }
}

}  // namespace
}  // namespace osb::api::native
