#include "api/lifecycle_hooks.h"

#include <gtest/gtest.h>

#include "api/lifecycle_create.h"
#include "api/lifecycle_testing.h"

namespace osb::api {
namespace {

using std::chrono::seconds;
using testing::kParameter;
using testing::refused;

std::string body(std::string_view lifecycle) {
  return R"({"image":{"uri":"a"},"entrypoint":["x"],"resourceLimits":{},"lifecycle":)" + std::string(lifecycle) + "}";
}

Lifecycle read(std::string_view lifecycle) {
  const auto create = decode_create_sandbox(body(lifecycle));
  EXPECT_TRUE(create) << lifecycle << ": " << (create ? "" : create.error().message);
  return create ? create->lifecycle : Lifecycle();
}

constexpr std::string_view kAll = R"({"preStart":{"command":["sh","-c","true"],"timeoutSeconds":10800},
  "periodic":[{"name":" a ","schedule":" */5 * * * * ","command":["b",""]},
              {"name":"c","schedule":"@every 30s","command":["d"],"timeoutSeconds":1}],
  "idlePolicy":{"idleTimeoutSeconds":30,"onIdle":"pause","wakeOnAccess":false,"activeProbe":{"port":80,"path":"/x?y"}},
  "renewalPolicy":{"extendSeconds":300}})";

TEST(LifecycleField, TakesEveryField) {
  const Lifecycle all = read(kAll);
  ASSERT_TRUE(all.pre_start);
  EXPECT_EQ(all.pre_start->command, (std::vector<std::string>{"sh", "-c", "true"}));
  EXPECT_EQ(all.pre_start->timeout, seconds(10800));
  ASSERT_EQ(all.periodic.size(), 2u);
  EXPECT_EQ(all.periodic[0], (PeriodicHook{"a", "*/5 * * * *", {"b", ""}, seconds(60)}));
  EXPECT_EQ(all.periodic[1], (PeriodicHook{"c", "@every 30s", {"d"}, seconds(1)}));
  ASSERT_TRUE(all.idle);
  EXPECT_EQ(*all.idle, (IdlePolicy{seconds(30), false, ActiveProbe{80, "/x?y", seconds(2)}}));
  EXPECT_EQ(all.renew, seconds(300));
  EXPECT_EQ(read(R"({"preStart":{"command":["a"]}})").pre_start->timeout, seconds(60));
  EXPECT_TRUE(read(R"({"idlePolicy":{}})").idle->wake_on_access);
  EXPECT_TRUE(read(R"({"pre_start":{"command":["a"],"timeout_seconds":5}})").pre_start);
  for (const char* none : {"{}", "null", R"({"preStart":null,"periodic":[]})"}) EXPECT_TRUE(read(none).empty()) << none;
}

TEST(LifecycleField, RecordsAndExecdReadItBack) {
  const auto create = decode_create_sandbox(body(kAll));
  ASSERT_TRUE(create);
  const auto again = decode_create_sandbox(encode_create_sandbox(*create, true));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->lifecycle, create->lifecycle);
  const auto hooks = decode_hooks(encode_hooks(create->lifecycle));
  ASSERT_TRUE(hooks) << hooks.error().message;
  EXPECT_EQ(hooks->pre_start, create->lifecycle.pre_start);
  EXPECT_EQ(hooks->periodic, create->lifecycle.periodic);
  EXPECT_FALSE(hooks->idle || hooks->renew);
  EXPECT_EQ(encode_hooks(read(R"({"idlePolicy":{}})")), "");
  EXPECT_EQ(decode_idle_policy(encode_idle_policy(*create->lifecycle.idle)), create->lifecycle.idle);
  for (const char* none : {"", "{", "7", R"({"idleTimeoutSeconds":1})"}) EXPECT_FALSE(decode_idle_policy(none)) << none;
}

TEST(LifecycleField, ErrorsAgainstTheSchemaAre422AndNameThePlace) {
  const struct {
    const char* lifecycle;
    const char* place;
  } rows[] = {
      {R"([])", "/lifecycle"},
      {R"({"postStart":{}})", "/lifecycle/postStart"},
      {R"({"preStart":{}})", "/lifecycle/preStart/command"},
      {R"({"preStart":{"command":"true"}})", "/lifecycle/preStart/command"},
      {R"({"preStart":{"command":[]}})", "/lifecycle/preStart/command"},
      {R"({"preStart":{"command":[" ","a"]}})", "/lifecycle/preStart/command"},
      {R"({"preStart":{"command":["a\u0000"]}})", "/lifecycle/preStart/command"},
      {R"({"preStart":{"command":["a"],"timeoutSeconds":0}})", "/lifecycle/preStart/timeoutSeconds"},
      {R"({"preStart":{"command":["a"],"timeoutSeconds":10801}})", "/lifecycle/preStart/timeoutSeconds"},
      {R"({"preStart":{"command":["a"],"shell":true}})", "/lifecycle/preStart/shell"},
      {R"({"periodic":{}})", "/lifecycle/periodic"},
      {R"({"periodic":[1]})", "/lifecycle/periodic/0"},
      {R"({"periodic":[{"schedule":"@hourly","command":["a"]}]})", "/lifecycle/periodic/0/name"},
      {R"({"periodic":[{"name":" ","schedule":"@hourly","command":["a"]}]})", "/lifecycle/periodic/0/name"},
      {R"({"periodic":[{"name":"a","schedule":"\t","command":["a"]}]})", "/lifecycle/periodic/0/schedule"},
      {R"({"periodic":[{"name":"a","schedule":"@hourly","command":["a"],"timeoutSeconds":301}]})",
       "/lifecycle/periodic/0/timeoutSeconds"},
      {R"({"periodic":[{"name":"a","schedule":"@hourly","command":["a"]},
                       {"name":"a ","schedule":"@daily","command":["a"]}]})",
       "/lifecycle/periodic/1/name"},
      {R"({"periodic":[{"name":"a","schedule":"@hourly","command":["a"],"x":1}]})", "/lifecycle/periodic/0/x"},
      {R"({"idlePolicy":{"idleTimeoutSeconds":29,"onIdle":"pause"}})", "/lifecycle/idlePolicy/idleTimeoutSeconds"},
      {R"({"idlePolicy":{"idleTimeoutSeconds":30}})", "/lifecycle/idlePolicy/onIdle"},
      {R"({"idlePolicy":{"onIdle":"pause"}})", "/lifecycle/idlePolicy/onIdle"},
      {R"({"idlePolicy":{"idleTimeoutSeconds":30,"onIdle":"stop"}})", "/lifecycle/idlePolicy/onIdle"},
      {R"({"idlePolicy":{"activeProbe":{"path":"/"}}})", "/lifecycle/idlePolicy/activeProbe/port"},
      {R"({"idlePolicy":{"activeProbe":{"port":80}}})", "/lifecycle/idlePolicy/activeProbe/path"},
      {R"({"idlePolicy":{"activeProbe":{"port":80,"path":"a b"}}})", "/lifecycle/idlePolicy/activeProbe/path"},
      {R"({"renewalPolicy":{}})", "/lifecycle/renewalPolicy/extendSeconds"},
      {R"({"renewalPolicy":{"extendSeconds":299}})", "/lifecycle/renewalPolicy/extendSeconds"},
      {R"({"renewalPolicy":{"extendSeconds":300,"x":1}})", "/lifecycle/renewalPolicy/x"},
  };
  for (const auto& row : rows) {
    EXPECT_TRUE(refused(decode_create_sandbox(body(row.lifecycle)), 422, kParameter, row.place)) << row.lifecycle;
  }
  for (const auto& [other, place] : {std::pair(R"("templateId":"t")", "/templateId: cannot be combined with lifecycle"),
                                     std::pair(R"("extensions":{"poolRef":"p"})", "/lifecycle")}) {
    const std::string text = std::string("{") + other + R"(,"lifecycle":{"preStart":{"command":["a"]}}})";
    EXPECT_TRUE(refused(decode_create_sandbox(text), 422, kParameter, place)) << text;
  }
}

TEST(LifecycleField, SchedulesThatCannotBeServedAre400) {
  const auto now = std::chrono::system_clock::now();
  const auto check = [&](std::string schedule) {
    Lifecycle lifecycle;
    lifecycle.periodic.push_back({"a", std::move(schedule), {"b"}});
    return check_lifecycle(lifecycle, now);
  };
  EXPECT_TRUE(check("0 0 29 2 *"));
  EXPECT_TRUE(check("TZ=Asia/Tokyo @daily"));
  EXPECT_TRUE(refused(check("0 0 30 2 *"), 400, kParameter, "/lifecycle/periodic/0/schedule: \"0 0 30 2 *\" names"));
  EXPECT_TRUE(refused(check("sometimes"), 400, kParameter, "/lifecycle/periodic/0/schedule: expected five"));
  Lifecycle large;
  large.pre_start = PreStartHook{{"sh", "-c", std::string(70'000, 'x')}};
  EXPECT_TRUE(refused(check_lifecycle(large, now), 400, kParameter, "/lifecycle: the hooks are"));
  Lifecycle idle;
  idle.idle = IdlePolicy{seconds(1801), true, std::nullopt};
  EXPECT_TRUE(
      refused(check_lifecycle(idle, now), 400, kParameter, "/lifecycle/idlePolicy/idleTimeoutSeconds: at most"));
}

}  // namespace
}  // namespace osb::api
