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

TEST(SdkOtherServers, AreAskedAgainForASandboxThatWasNotWokenInTime) {
  must(Sandbox::attach(stub_client(), "box").files().move("/woken", "/there"));
  ConnectionConfig config = stub_client().config();
  config.wake_timeout = {};
  const auto late = Sandbox::attach(must(Client::open(config)), "box").files().move("/never", "/there");
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, "WAKE_TIMEOUT") << late.error().to_string();
  EXPECT_EQ(late.error().kind, ErrorKind::ReadyTimeout);
}

TEST(SdkOtherServers, NameASandboxInTheirBackend) {
  const auto context = must(SandboxManager(stub_client()).diagnostic_context("box"));
  EXPECT_EQ(context.backend_type, "other");
  EXPECT_EQ(context.backend_identifiers, (StringMap{{"pod", "p-1"}}));
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
  EXPECT_EQ(run.stdout_text(), "printed");
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

TEST(SdkOtherServers, ReplaceAPolicyWithPorts) {
  const auto egress = Sandbox::attach(stub_client(), "box").egress();
  const auto before = must(egress.get()).policy;
  must(egress.replace({"allow", {{"deny", "10.0.0.1", {22, 25}}, {"deny", "", {53}}}}));
  const auto policy = must(egress.get()).policy;
  EXPECT_EQ(policy.default_action, "allow");
  ASSERT_EQ(policy.egress.size(), 2u);
  EXPECT_EQ(policy.egress[0].ports, (std::vector<int>{22, 25}));
  EXPECT_EQ(policy.egress[1].target, "");
  must(egress.replace(before));
}

TEST(SdkOtherServers, ReadEgressDecisions) {
  const auto egress = Sandbox::attach(stub_client(), "box").egress();
  const auto all = must(egress.decisions());
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].name, "a.example");
  EXPECT_EQ(all[0].verdict, "deny");
  EXPECT_EQ(all[0].count, 3);
  EXPECT_EQ(all[0].addresses, std::vector<std::string>{"192.0.2.1"});
  std::vector<std::string> names;
  must(egress.follow_decisions([&](const EgressDecision& decision) {
    names.push_back(decision.name);
    return true;
  }));
  EXPECT_EQ(names, (std::vector<std::string>{"a.example", "b.example"}));
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

TEST(SdkOtherServers, UseEntriesOfTheOperatorAndReadTheAudit) {
  const auto vault = Sandbox::attach(stub_client(), "box").credential_vault();
  CredentialVaultPatch patch;
  patch.add_credentials = {{.name = "m", .entry = "model-key"}};
  patch.add_bindings = {{.name = "b", .match = {.hosts = {"api.example.com"}}}};
  patch.add_bindings[0].auth.type = "passthrough";
  patch.add_bindings[0].auth.substitutions = {{"m", "__KEY__", {"query", "body"}}};
  const auto state = must(vault.patch(patch));
  EXPECT_EQ(state.revision, 8);
  ASSERT_EQ(state.credentials.size(), 1u);
  EXPECT_EQ(state.credentials[0].source_type, "operator");
  EXPECT_EQ(state.credentials[0].entry, "model-key");
  EXPECT_EQ(state.credentials[0].hosts, std::vector<std::string>{"api.example.com"});
  EXPECT_EQ(state.credentials[0].expires_at, "2030-01-01T00:00:00Z");
  EXPECT_EQ(state.missing_values, std::vector<std::string>{"m"});

  const auto lines = must(vault.audit());
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].decision, "injected");
  EXPECT_EQ(lines[0].binding, "b");
  EXPECT_EQ(lines[0].host, "api.example.com");
  EXPECT_EQ(lines[0].revision, 4);
  EXPECT_EQ(lines[0].status_code, 200);
  std::vector<std::string> followed;
  must(vault.follow_audit([&](const CredentialAuditLine& line) {
    followed.push_back(line.operation);
    return true;
  }));
  EXPECT_EQ(followed, std::vector<std::string>{"inject"});
}

}  // namespace
}  // namespace opensandbox
