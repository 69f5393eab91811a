#include <algorithm>

#include "fixture.h"

namespace opensandbox {
namespace {

using std::chrono::seconds;

using SdkLifecycle = SandboxTest;

TEST_F(SdkLifecycle, GivesASandboxThatAnswers) {
  EXPECT_TRUE(must(sandbox().is_healthy()));
  const auto info = must(sandbox().info());
  EXPECT_EQ(info.id, sandbox().id());
  EXPECT_EQ(info.status.state, state::kRunning);
  EXPECT_EQ(info.image, test_image());
  ASSERT_TRUE(info.expires_at);
  EXPECT_EQ(*info.expires_at - info.created_at, seconds(600));
}

TEST_F(SdkLifecycle, ConnectsToAnExistingSandbox) {
  const auto same = must(Sandbox::connect(client(), sandbox().id()));
  EXPECT_EQ(must(same.commands().run("echo hi")).stdout_text(), "hi\n");
  EXPECT_EQ(must(Sandbox::attach(client(), sandbox().id()).commands().run("echo hi")).stdout_text(), "hi\n");
}

TEST_F(SdkLifecycle, RenewsAndChangesMetadata) {
  const auto until = must(sandbox().renew(std::chrono::hours(2)));
  EXPECT_GT(until, std::chrono::system_clock::now() + std::chrono::minutes(110));
  EXPECT_EQ(must(sandbox().info()).expires_at, until);
  auto info = must(sandbox().patch_metadata({{"team", "a"}, {"gone", "soon"}}));
  info = must(sandbox().patch_metadata({{"gone", std::nullopt}, {"more", "b"}}));
  EXPECT_EQ(info.metadata, (StringMap{{"more", "b"}, {"team", "a"}}));
}

TEST_F(SdkLifecycle, PausesAndResumes) {
  must(sandbox().pause());
  const auto manager = sandbox().manager();
  EXPECT_EQ(must(manager.wait_for_state(sandbox().id(), {"Paused"}, seconds(60))).status.state, state::kPaused);
  must(sandbox().resume());
  EXPECT_EQ(must(sandbox().commands().run("echo again")).stdout_text(), "again\n");
}

TEST_F(SdkLifecycle, ListsByStateAndMetadata) {
  must(sandbox().patch_metadata({{"suite", sandbox().id()}}));
  const auto manager = sandbox().manager();
  const auto found = must(manager.list({.states = {"Running"}, .metadata = {{"suite", sandbox().id()}}}));
  ASSERT_EQ(found.items.size(), 1u);
  EXPECT_EQ(found.items[0].id, sandbox().id());
  EXPECT_EQ(found.pagination.total_items, 1);
  EXPECT_TRUE(must(manager.list({.states = {"Paused"}, .metadata = {{"suite", sandbox().id()}}})).items.empty());
  const auto all = must(manager.list_all({.page_size = 1}));
  EXPECT_TRUE(std::ranges::any_of(all, [&](const auto& info) { return info.id == sandbox().id(); }));
}

TEST_F(SdkLifecycle, WatchesStatesUntilTheEnd) {
  std::vector<std::string> states;
  must(sandbox().manager().watch(sandbox().id(), [&](const SandboxInfo* info) {
    states.push_back(info != nullptr ? info->status.state : "gone");
    if (states.size() == 1) must(sandbox().kill());
    return true;
  }));
  EXPECT_EQ(states.front(), "Running");
  EXPECT_EQ(states.back(), "gone");
}

TEST_F(SdkLifecycle, TellsEndpoints) {
  const auto execd = must(sandbox().endpoint(kExecdPort));
  EXPECT_TRUE(execd.headers.contains("X-EXECD-ACCESS-TOKEN"));
  EXPECT_EQ(execd.url, client().config().protocol + "://" + execd.endpoint);
  const auto proxied = must(sandbox().endpoint(8000, {.use_server_proxy = true}));
  EXPECT_NE(proxied.endpoint.find("/sandboxes/" + sandbox().id() + "/proxy/8000"), std::string::npos);
}

TEST_F(SdkLifecycle, ReportsMetrics) {
  const auto once = must(sandbox().metrics());
  EXPECT_GT(once.cpu_count, 0);
  EXPECT_GT(once.mem_total_mib, 0);
  int seen = 0;
  must(sandbox().watch_metrics([&](const Metrics& metrics) {
    EXPECT_GT(metrics.timestamp, 0);
    return ++seen < 2;
  }));
  EXPECT_EQ(seen, 2);
}

TEST_F(SdkLifecycle, ExplainsThroughDiagnostics) {
  const auto manager = sandbox().manager();
  const auto events = must(manager.events(sandbox().id(), "lifecycle"));
  EXPECT_EQ(events.sandbox_id, sandbox().id());
  EXPECT_EQ(events.kind, "events");
  EXPECT_EQ(must(manager.logs(sandbox().id(), "container")).kind, "logs");
  EXPECT_NE(must(manager.inspect_text(sandbox().id())).find(sandbox().id()), std::string::npos);
  EXPECT_FALSE(must(manager.summary_text(sandbox().id())).empty());
  must(manager.logs_text(sandbox().id()));
  must(manager.events_text(sandbox().id()));
}

TEST_F(SdkLifecycle, FollowsWhatAnEntrypointWrites) {
  const auto made = must(Sandbox::create(
      client(), {.image = test_image(),
                 .entrypoint = {"sh", "-c",
                                "echo one; printf 'a\\377\\n'; until [ -e /tmp/go ]; do sleep 0.05; done; "
                                "printf last; exit 3"}}));
  std::string text;
  bool timed = true, told = false;
  const auto end = must(sandbox().manager().follow_logs(made.id(), [&](const LogOutput& output) {
    text += output.text;
    timed = timed && !output.time.empty();
    if (text.ends_with("\xFF\n") && !std::exchange(told, true)) must(made.files().write("/tmp/go", "now"));
    return true;
  }));
  EXPECT_EQ(text.substr(0, 11), "one\na\xFF\nlast");
  EXPECT_TRUE(timed);
  EXPECT_EQ(end.state, state::kFailed);
  EXPECT_EQ(end.exit_code, 3);
  text.clear();
  const auto enough = must(sandbox().manager().follow_logs(made.id(),
                                                           [&](const LogOutput& output) {
                                                             text += output.text;
                                                             return false;
                                                           },
                                                           {.tail = 3, .follow = false}));
  EXPECT_EQ(text, "one\n");
  EXPECT_EQ(enough.state, "");
  must(made.kill());
  const auto gone = sandbox().manager().follow_logs(made.id(), [](const LogOutput&) { return true; });
  ASSERT_FALSE(gone);
  EXPECT_TRUE(gone.error().not_found());
}

TEST_F(SdkLifecycle, MakesSandboxesFromSnapshots) {
  must(sandbox().files().write("/root/kept", "text"));
  const auto made = must(sandbox().create_snapshot("sdk-snapshot"));
  const auto manager = sandbox().manager();
  EXPECT_EQ(must(manager.wait_for_snapshot(made.id, seconds(120))).status.state, "Ready");
  const auto listed = must(manager.snapshots({.sandbox_id = sandbox().id()}));
  ASSERT_EQ(listed.items.size(), 1u);
  EXPECT_EQ(listed.items[0].name, "sdk-snapshot");
  {
    const auto copy = must(Sandbox::create(client(), {.snapshot_id = made.id}));
    EXPECT_EQ(must(copy.files().read("/root/kept")), "text");
    must(copy.kill());
  }
  must(manager.delete_snapshot(made.id));
  const auto gone = manager.snapshot(made.id);
  ASSERT_FALSE(gone);
  EXPECT_TRUE(gone.error().not_found());
}

TEST_F(SdkLifecycle, MakesSandboxesOfTemplates) {
  const auto manager = sandbox().manager();
  const auto made = must(manager.create_template({.image = "host",
                                                  .entrypoint = {"sh", "-c", "echo warm > /root/warm; exec sleep 1000"},
                                                  .env = {{"COLOUR", "blue"}},
                                                  .metadata = {{"from", "sdk"}},
                                                  .readiness = TemplateReadiness{"cmd://test -f /root/warm", {}}}));
  const auto built = must(manager.wait_for_template(made.id, seconds(120)));
  EXPECT_EQ(built.phase, "Succeeded");
  EXPECT_FALSE(built.manifest_ref.empty());
  const auto listed = must(manager.templates({.metadata = {{"from", "sdk"}}}));
  ASSERT_EQ(listed.items.size(), 1u);
  EXPECT_EQ(listed.items[0].id, made.id);
  const auto copy = must(Sandbox::create(client(), {.template_id = made.id}));
  must(manager.delete_template(made.id));
  EXPECT_EQ(must(copy.files().read("/root/warm")), "warm\n");
  EXPECT_EQ(must(manager.get(copy.id())).template_id, made.id);
  must(copy.kill());
  EXPECT_TRUE(manager.get_template(made.id).error().not_found());
}

TEST_F(SdkLifecycle, RunsAHookBeforeTheEntrypoint) {
  const auto made = must(Sandbox::create(
      client(), {.image = test_image(),
                 .entrypoint = {"sh", "-c", "cp /tmp/hooked /tmp/begun; exec sleep 1000"},
                 .lifecycle = {.pre_start = PreStartHook{.command = {"sh", "-c", "echo hooked > /tmp/hooked"}}}}));
  const auto shown = must(made.commands().run("until [ -s /tmp/begun ]; do sleep 0.05; done; cat /tmp/begun"));
  EXPECT_EQ(shown.stdout_text(), "hooked\n");
  must(made.kill());
}

TEST_F(SdkLifecycle, WakesASandboxWithAnIdlePolicy) {
  const auto made = must(Sandbox::create(client(), {.image = test_image(), .lifecycle = {.idle = IdlePolicy{}}}));
  must(made.pause());
  must(made.manager().wait_for_state(made.id(), {"Paused"}, seconds(60)));
  EXPECT_EQ(must(made.commands().run("echo awake")).stdout_text(), "awake\n");
  EXPECT_EQ(must(made.info()).status.state, state::kRunning);
  must(made.kill());
}

TEST_F(SdkLifecycle, WaitsForAHealthCheckOfTheCaller) {
  int asked = 0;
  const auto same = must(Sandbox::connect(
      client(), sandbox().id(),
      {.ready = {.poll_interval = std::chrono::milliseconds(1)}, .health_check = [&](Sandbox& s) -> Result<bool> {
         EXPECT_EQ(s.id(), sandbox().id());
         return ++asked == 3;
       }}));
  EXPECT_EQ(asked, 3);
  const auto late = Sandbox::connect(client(), sandbox().id(),
                                     {.ready = {.timeout = std::chrono::milliseconds(100)},
                                      .health_check = [](Sandbox&) -> Result<bool> { return false; }});
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().kind, ErrorKind::ReadyTimeout);
  EXPECT_EQ(late.error().code, "READY_TIMEOUT");
}

TEST(SdkErrors, CarryWhatTheServerSaid) {
  const auto client = must(Client::open(test_config()));
  must(client.ping());
  const auto unknown = SandboxManager(client).get("00000000-0000-4000-8000-000000000000");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().kind, ErrorKind::Api);
  EXPECT_EQ(unknown.error().status, 404);
  EXPECT_NE(unknown.error().code, "UNEXPECTED_RESPONSE");
  EXPECT_FALSE(unknown.error().message.empty());
  EXPECT_FALSE(unknown.error().request_id.empty());
  EXPECT_FALSE(Sandbox::connect(client, "00000000-0000-4000-8000-000000000000"));
}

TEST(SdkErrors, AreTypedForWrongKeysServersAndArguments) {
  ConnectionConfig config = test_config();
  config.api_key = "wrong";
  const auto refused = SandboxManager(must(Client::open(config))).list();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().status, 401);

  config.domain = "127.0.0.1:1";
  const auto nobody = SandboxManager(must(Client::open(config))).list();
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().kind, ErrorKind::Network);
  EXPECT_EQ(nobody.error().status, 0);

  const auto both = Sandbox::create(must(Client::open(test_config())), {.image = "x", .snapshot_id = "y"});
  ASSERT_FALSE(both);
  EXPECT_EQ(both.error().kind, ErrorKind::InvalidArgument);
  EXPECT_FALSE(Client::open({.domain = "ftp://x"}));
  EXPECT_FALSE(Client::open({.request_timeout = std::chrono::milliseconds(0)}));
}

TEST(SdkErrors, OfACreateLeaveNothingBehind) {
  const auto client = must(Client::open(test_config()));
  const auto made = Sandbox::create(
      client, {.image = test_image(), .metadata = {{"suite", "leaves-nothing"}}, .ready = {.timeout = seconds(1)}},
      [](Sandbox&) -> Result<bool> { return false; });
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().kind, ErrorKind::ReadyTimeout);
  const auto left = must(SandboxManager(client).list({.metadata = {{"suite", "leaves-nothing"}}}));
  for (const auto& info : left.items) EXPECT_NE(info.status.state, "Running");
}

}  // namespace
}  // namespace opensandbox
