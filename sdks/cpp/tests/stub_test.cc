#include "fixture.h"

// Against the stub of tests/e2e/sdk_cpp/stub_server.py: these do not run with the others.
namespace opensandbox {
namespace {

Client stub_client() {
  ConnectionConfig config;
  config.headers = {{"X-Mine", "1"}};
  return must(Client::open(config));
}

TEST(SdkOtherServers, AreWaitedForByAskingTheSandbox) {
  const auto sandbox = must(Sandbox::create(
      stub_client(),
      {.image = "x",
       .image_auth = ImageAuth{.username = "u", .password = "p"},
       .env = {{"A", "b"}},
       .network_policy = NetworkPolicy{.egress = {{"allow", "*.x.org"}}},
       .volumes = {{.name = "v", .mount_path = "/v", .read_only = true, .pvc = PvcVolume{.claim_name = "c"}}},
       .platform = Platform{.os = "linux", .arch = "arm64"},
       .ready = {.poll_interval = std::chrono::milliseconds(1)}}));
  EXPECT_EQ(sandbox.id(), "box");
  const auto info = must(sandbox.info());
  EXPECT_EQ(info.status.state, "Running");
  EXPECT_FALSE(info.expires_at);
  EXPECT_NE(info.json.find("somethingNew"), std::string::npos);
  const auto odd = sandbox.files().info("/x");
  ASSERT_FALSE(odd);
  EXPECT_EQ(odd.error().status, 404);
  EXPECT_EQ(odd.error().code, "UNEXPECTED_RESPONSE");
  EXPECT_EQ(odd.error().message, "no such thing");
  EXPECT_EQ(odd.error().request_id, "stub-1");
  must(sandbox.kill());
}

TEST(SdkOtherServers, AreLookedAtUntilTheTimeIsUp) {
  const SandboxManager manager(stub_client());
  const auto late = manager.wait_for_state("box", {"Paused"}, std::chrono::milliseconds(100));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().kind, ErrorKind::ReadyTimeout) << late.error().to_string();
}

TEST(SdkOtherServers, CannotSendLinesWithoutEnd) {
  const auto watched = Sandbox::attach(stub_client(), "box").watch_metrics([](const Metrics&) { return true; });
  ASSERT_FALSE(watched);
  EXPECT_EQ(watched.error().kind, ErrorKind::InvalidResponse) << watched.error().to_string();
}

TEST(SdkOtherServers, RunCode) {
  const auto code = Sandbox::attach(stub_client(), "box").code();
  const auto context = must(code.create_context("python"));
  EXPECT_EQ(context.id, "c1");
  EXPECT_EQ(must(code.contexts("python")).size(), 1u);
  std::int64_t count = 0;
  const auto run = must(code.run("6 * 7", {}, {.on_event = [&](const ExecutionEvent& event) {
                                   if (event.execution_count != 0) count = event.execution_count;
                                   return true;
                                 }}));
  EXPECT_EQ(run.id, "run-1");
  EXPECT_EQ(run.stdout_text(), "printed\n");
  ASSERT_EQ(run.results.size(), 1u);
  EXPECT_EQ(run.results[0].at("text/plain"), "42");
  EXPECT_EQ(count, 7);
  EXPECT_FALSE(run.exit_code);
  const auto bad = must(code.run("fail", {.context = context}));
  ASSERT_TRUE(bad.error);
  EXPECT_EQ(bad.error->name, "ValueError");
  EXPECT_EQ(bad.error->traceback, (std::vector<std::string>{"a", "b"}));
  EXPECT_FALSE(code.run("x", {.context = context, .language = "go"}));
  must(code.interrupt("run-1"));
  must(code.remove_context("c1"));
}

TEST(SdkOtherServers, ChangeEgressRules) {
  const auto egress = Sandbox::attach(stub_client(), "box").egress();
  const auto policy = must(egress.get());
  EXPECT_EQ(policy.mode, "enforcing");
  EXPECT_EQ(policy.policy.default_action, "deny");
  ASSERT_EQ(policy.policy.egress.size(), 1u);
  EXPECT_EQ(must(egress.patch({{"deny", "b.example"}})).policy.egress.back().target, "b.example");
  EXPECT_EQ(must(egress.remove({"b.example", "unknown"})).policy.egress.size(), 1u);
}

TEST(SdkOtherServers, KeepCredentials) {
  const auto vault = Sandbox::attach(stub_client(), "box").credential_vault();
  const auto made =
      must(vault.create({{.name = "a/b", .value = "secret"}}, {{.name = "bind",
                                                                .match = {.hosts = {"api.example.com"}, .ports = {443}},
                                                                .auth = {.type = "bearer", .credential = "a/b"}}}));
  EXPECT_EQ(made.revision, 1);
  ASSERT_EQ(made.credentials.size(), 1u);
  EXPECT_EQ(made.credentials[0].source_type, "inline");
  ASSERT_EQ(made.bindings.size(), 1u);
  EXPECT_EQ(made.bindings[0].match.ports, std::vector<int>{443});
  EXPECT_EQ(must(vault.patch({.expected_revision = 1, .add_credentials = {{.name = "c", .value = "d"}}})).revision, 2);
  EXPECT_EQ(must(vault.credentials()).size(), 2u);
  EXPECT_EQ(must(vault.credential("a/b")).name, "a/b");
  EXPECT_EQ(must(vault.bindings()).size(), 1u);
  const auto late = vault.patch({.expected_revision = 99, .delete_credentials = {"x"}});
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().status, 409);
  EXPECT_EQ(late.error().message, "the revision is another one");
  must(vault.remove());
}

}  // namespace
}  // namespace opensandbox
