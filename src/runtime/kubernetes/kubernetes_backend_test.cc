#include "runtime/kubernetes/kubernetes_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "async/race.h"
#include "runtime/kubernetes/cluster_fixture.h"
#include "runtime/labels.h"

namespace osb::runtime {
namespace {

namespace json = boost::json;
using ::testing::HasSubstr;
using testing::TestCluster;

class Listener final : public Observer {
 public:
  explicit Listener(net::any_io_executor executor) : changed(executor) {}
  void on_all(std::vector<Instance> all) override {
    lost = false;
    known.clear();
    for (Instance& each : all) known[each.id] = std::move(each);
    ++lists;
    changed.notify_all();
  }
  void on_change(Instance instance) override {
    known[instance.id] = std::move(instance);
    changed.notify_all();
  }
  void on_removed(std::string id) override {
    known.erase(id);
    changed.notify_all();
  }
  void on_lost(const Error&) override {
    lost = true;
    changed.notify_all();
  }
  void on_snapshot(SnapshotInfo info) override {
    snapshots[info.id] = std::move(info);
    changed.notify_all();
  }
  void on_snapshot_removed(std::string id) override {
    snapshots.erase(id);
    changed.notify_all();
  }

  std::map<std::string, Instance> known;
  std::map<std::string, SnapshotInfo> snapshots;
  int lists = 0;
  bool lost = false;
  Notifier changed;
};

class KubernetesBackendTest : public ::testing::Test {
 protected:
  void TearDown() override { end(); }

  void begin() {
    backend = must(KubernetesBackend::connect(io.get_executor(), options));
    watching = std::make_unique<TaskGroup>(io.get_executor());
    watching->spawn("watch", backend->lifecycle().watch(listener));
    until([this] { return listener.lists > 0; });
  }
  void end() {
    if (!backend) return;
    run(watching->close());
    run(backend->close());
    backend.reset();
  }
  template <typename T>
  T run(net::awaitable<T> task) {
    return osb::testing::await(io, std::move(task));
  }
  template <typename T>
  T must(net::awaitable<Result<T>> task) {
    auto result = run(std::move(task));
    if (!result) throw std::runtime_error(result.error().message);
    return std::move(*result);
  }
  void until(std::function<bool()> condition) { run(listener.changed.wait_until(std::move(condition))); }

  static SandboxSpec spec(const std::string& id) {
    api::CreateSandbox create;
    create.image = api::ImageSpec{"debian:12", {}};
    create.entrypoint = {"sleep", "1"};
    create.resource_limits = api::StringMap{};
    return {id, std::make_shared<const api::CreateSandbox>(create), "token-" + id, "", make_labels(id, create, {})};
  }
  static SandboxSpec pooled(const std::string& id, const std::string& pool) {
    SandboxSpec out = spec(id);
    api::CreateSandbox create = *out.create;
    create.image.reset();
    create.extensions[std::string(api::kPoolRefKey)] = pool;
    out.create = std::make_shared<const api::CreateSandbox>(create);
    return out;
  }
  Result<Instance> create(const std::string& id) { return run(backend->lifecycle().create(spec(id))); }

  net::io_context io{1};
  TestCluster cluster{io};
  KubernetesOptions options = cluster.options();
  Listener listener{io.get_executor()};
  std::unique_ptr<KubernetesBackend> backend;
  std::unique_ptr<TaskGroup> watching;
};

TEST_F(KubernetesBackendTest, ASandboxRunsWhenItsExecdHasAnswered) {
  begin();
  const auto made = create("a");
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->state, InstanceState::Running);
  EXPECT_EQ(made->ports->route(44772).origin, "192.0.2.7:44772");
  EXPECT_EQ(cluster.tokens.back(), "token-a");
  until([this] { return listener.known["a"].state == InstanceState::Running; });
  ASSERT_TRUE(run(backend->lifecycle().remove("a")));
  until([this] { return !listener.known.contains("a"); });
  EXPECT_EQ(cluster.count(kubernetes::resources::kPods), 0u);
  EXPECT_TRUE(run(backend->lifecycle().remove("a")));
}

TEST_F(KubernetesBackendTest, ARemovedSandboxIsOnItsWayOutBeforeTheWatchTellsIt) {
  begin();
  ASSERT_TRUE(create("a"));
  cluster.server.hold_events = true;
  ASSERT_TRUE(run(backend->lifecycle().remove("a")));
  EXPECT_EQ(run(backend->lifecycle().inspect("a"))->state, InstanceState::Removing);
  cluster.server.hold_events = false;
  cluster.server.release_events();
  until([this] { return !listener.known.contains("a"); });
}

TEST_F(KubernetesBackendTest, QuestionsAreAnsweredWithoutARequest) {
  begin();
  ASSERT_TRUE(create("a"));
  const auto requests = cluster.server.requests.size();
  EXPECT_EQ(run(backend->lifecycle().inspect("a"))->id, "a");
  EXPECT_EQ(run(backend->lifecycle().list())->size(), 1u);
  EXPECT_EQ(cluster.server.requests.size(), requests);
  EXPECT_EQ(run(backend->lifecycle().inspect("b")).error().code, Code::NotFound);
}

TEST_F(KubernetesBackendTest, AnotherServerFindsTheSandboxes) {
  begin();
  ASSERT_TRUE(create("a"));
  end();
  listener.lists = 0;
  begin();
  const Instance& found = listener.known.at("a");
  EXPECT_EQ(found.state, InstanceState::Running);
  EXPECT_EQ(found.execd_token, "token-a");
  EXPECT_TRUE(read_labels("a", found.labels));
  EXPECT_EQ(create("a").error().code, Code::Conflict);
}

TEST_F(KubernetesBackendTest, AnImageThatCannotBePulledFailsTheCreateByName) {
  cluster.on_pod = [](json::object& pod) {
    pod["status"] = {{"phase", "Pending"},
                     {"containerStatuses",
                      json::array{json::object{
                          {"name", "sandbox"},
                          {"state", {{"waiting", {{"reason", "ImagePullBackOff"}, {"message", "not there"}}}}}}}}};
  };
  begin();
  const auto made = create("a");
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().reason, "KUBERNETES::POD_FAILED");
  EXPECT_THAT(made.error().message, HasSubstr("ImagePullBackOff: not there"));
  EXPECT_EQ(cluster.count(kBatchSandboxes), 0u);
}

TEST_F(KubernetesBackendTest, APodWithoutANodeIsLateAndSaysWhy) {
  // Time passes when the reason is known.
  FakeClock clock;
  options.client.clock = &clock;
  options.client.sleep = [&](std::chrono::nanoseconds) -> net::awaitable<bool> {
    const auto known = [this] { return listener.known["a"].message.contains("0/3"); };
    if (!co_await listener.changed.wait_until(known)) co_return false;
    clock.advance(std::chrono::hours(1));
    co_return true;
  };
  cluster.on_pod = [](json::object& pod) {
    pod["status"] = {{"phase", "Pending"},
                     {"conditions", json::array{json::object{{"type", "PodScheduled"},
                                                             {"status", "False"},
                                                             {"reason", "Unschedulable"},
                                                             {"message", "0/3 nodes are available"}}}}};
  };
  begin();
  const auto made = create("a");
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Code::Timeout);
  EXPECT_EQ(made.error().reason, "KUBERNETES::POD_READY_TIMEOUT");
  EXPECT_THAT(made.error().message, HasSubstr("0/3 nodes are available"));
  EXPECT_EQ(cluster.count(kBatchSandboxes), 0u);
  end();  // before the clock goes
}

TEST_F(KubernetesBackendTest, AnExceededQuotaIsNamed) {
  begin();
  cluster.server.intercept = [](const http::Request& request) -> std::optional<http::Response> {
    if (request.method != "POST") return std::nullopt;
    return http::json_response(403, R"({"kind":"Status","status":"Failure","reason":"Forbidden","code":403,)"
                                    R"("message":"exceeded quota: boxes, requested: count=1"})");
  };
  const auto made = create("a");
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Code::Forbidden);
  EXPECT_EQ(made.error().reason, "KUBERNETES::QUOTA_EXCEEDED");
}

TEST_F(KubernetesBackendTest, ARemovalEndsACreateThatIsUnderWay) {
  using namespace race;
  cluster.make_pods = false;
  begin();
  const auto remove_when_seen = [this]() -> net::awaitable<Result<void>> {
    (void)co_await listener.changed.wait_until([this] { return listener.known.contains("a"); });
    co_return co_await backend->lifecycle().remove("a");
  };
  auto [made, removed] = run(backend->lifecycle().create(spec("a")) && remove_when_seen());
  EXPECT_FALSE(made);
  EXPECT_TRUE(removed);
  EXPECT_EQ(cluster.count(kBatchSandboxes), 0u);
}

TEST_F(KubernetesBackendTest, TheEndOfAnEntrypointIsTold) {
  begin();
  ASSERT_TRUE(create("a"));
  cluster.change_pod("a", [](json::object& pod) { TestCluster::end_pod(pod, 4); });
  until([this] { return listener.known["a"].state == InstanceState::Ended; });
  EXPECT_EQ(listener.known["a"].exit_code, 4);
}

TEST_F(KubernetesBackendTest, SecretsAndClaimsGoWithTheSandbox) {
  begin();
  SandboxSpec wanted = spec("a");
  api::CreateSandbox create = *wanted.create;
  create.image->auth = api::ImageLogin{"me", "pass"};
  for (const char* name : {"kept", "own"}) {
    api::Volume& volume = create.volumes.emplace_back();
    volume.name = name;
    volume.mount_path = std::string("/") + name;
    volume.pvc.emplace().claim_name = name;
    volume.pvc->delete_on_sandbox_termination = volume.name == "own";
  }
  wanted.create = std::make_shared<const api::CreateSandbox>(create);
  ASSERT_TRUE(run(backend->lifecycle().create(wanted)));
  EXPECT_EQ(cluster.count(kubernetes::resources::kSecrets), 1u);
  EXPECT_EQ(cluster.count(kubernetes::resources::kClaims), 2u);
  ASSERT_TRUE(run(backend->lifecycle().remove("a")));
  EXPECT_EQ(cluster.count(kubernetes::resources::kSecrets), 0u);
  EXPECT_EQ(cluster.count(kubernetes::resources::kClaims), 1u);
}

TEST_F(KubernetesBackendTest, DeadlinesAndMetadataLiveInTheObject) {
  begin();
  ASSERT_TRUE(create("a"));
  const Timestamp until_then(std::chrono::seconds(4'000'000'000));
  ASSERT_TRUE(run(backend->lifecycle().set_deadline("a", until_then)));
  ASSERT_TRUE(run(backend->lifecycle().patch_metadata("a", {{"team", "b"}})));
  const Instance found = *run(backend->lifecycle().inspect("a"));
  EXPECT_EQ(found.expires_at, until_then);
  EXPECT_EQ(found.labels.at("team"), "b");
  EXPECT_EQ(run(backend->lifecycle().set_deadline("b", until_then)).error().code, Code::NotFound);
}

TEST_F(KubernetesBackendTest, LogsComeFromThePod) {
  begin();
  ASSERT_TRUE(create("a"));
  cluster.server.logs[{"sandboxes", "a-0"}] = "2026-01-02T03:04:05.000000006Z hello\n";
  EXPECT_EQ(*run(backend->logs()->tail("a", 1000)), "2026-01-02T03:04:05.000000006Z hello\n");
  auto stream = run(backend->logs()->open("a", {}));
  ASSERT_TRUE(stream) << stream.error().message;
  const auto pieces = run((*stream)->next());
  ASSERT_EQ(pieces->size(), 1u);
  EXPECT_EQ(pieces->front().text, "hello\n");
  EXPECT_EQ(run(backend->logs()->tail("b", 10)).error().code, Code::NotFound);
}

TEST_F(KubernetesBackendTest, AServerThatIsAwayIsToldAndFoundAgain) {
  begin();
  bool away = true;
  cluster.server.intercept = [&away](const http::Request&) -> std::optional<http::Response> {
    if (!away) return std::nullopt;
    return http::text_response(500, "away");
  };
  cluster.server.break_watches();
  until([this] { return listener.lost; });
  away = false;
  until([this] { return !listener.lost; });
  cluster.server.intercept = nullptr;
}

TEST_F(KubernetesBackendTest, APausedSandboxGivesItsPodUpAndGetsOneBack) {
  begin();
  ASSERT_TRUE(create("a"));
  ASSERT_TRUE(run(backend->lifecycle().pause("a")));
  until([this] { return listener.known["a"].state == InstanceState::Paused; });
  EXPECT_EQ(cluster.count(kubernetes::resources::kPods), 0u);
  ASSERT_TRUE(run(backend->lifecycle().resume("a")));
  until([this] { return listener.known["a"].state == InstanceState::Running; });
  EXPECT_EQ(cluster.count(kubernetes::resources::kPods), 1u);
}

TEST_F(KubernetesBackendTest, AFailedPauseLeavesTheSandboxRunningSaysWhyAndIsTriedAgain) {
  cluster.pauses_work = false;
  begin();
  ASSERT_TRUE(create("a"));
  ASSERT_TRUE(run(backend->lifecycle().pause("a")));
  until([this] { return listener.known["a"].message.contains("SnapshotFailed: no registry"); });
  EXPECT_EQ(listener.known["a"].state, InstanceState::Running);
  cluster.pauses_work = true;
  ASSERT_TRUE(run(backend->lifecycle().pause("a")));
  until([this] { return listener.known["a"].state == InstanceState::Paused; });
}

TEST_F(KubernetesBackendTest, APoolGivesItsPod) {
  begin();
  ASSERT_TRUE(run(backend->pools()->create({"fast", {}, {5, 1, 10, 1}})));
  const auto made = run(backend->lifecycle().create(pooled("a", "fast")));
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->ports->route(44772).origin, "192.0.2.8:44772");
  EXPECT_EQ(made->pool, "fast");
  EXPECT_EQ(cluster.tokens.back(), "token-a");
  EXPECT_EQ(cluster.count(kubernetes::resources::kPods), 0u) << "none of its own";
  cluster.server.logs[{"sandboxes", "fast-x1"}] = "2026-01-02T03:04:05.000000006Z hello\n";
  EXPECT_EQ(*run(backend->logs()->tail("a", 1000)), "2026-01-02T03:04:05.000000006Z hello\n");
}

TEST_F(KubernetesBackendTest, APoolThatIsMissingOrEmptyFailsTheCreateByName) {
  FakeClock clock;
  options.client.clock = &clock;
  options.client.sleep = [&](std::chrono::nanoseconds time) -> net::awaitable<bool> {
    clock.advance(time);
    co_return true;
  };
  begin();
  auto made = run(backend->lifecycle().create(pooled("a", "none")));
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().reason, "KUBERNETES::POOL_NOT_FOUND");
  EXPECT_EQ(made.error().code, Code::NotFound);
  ASSERT_TRUE(run(backend->pools()->create({"fast", {}, {5, 1, 10, 1}})));
  cluster.has_idle_pods = false;
  made = run(backend->lifecycle().create(pooled("a", "fast")));
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().reason, "KUBERNETES::POOL_CAPACITY_EXHAUSTED");
  EXPECT_EQ(made.error().code, Code::Exhausted);
  EXPECT_EQ(cluster.count(kBatchSandboxes), 0u);
  end();  // before the clock goes
}

TEST_F(KubernetesBackendTest, PoolsAreMadeListedResizedAndRemoved) {
  begin();
  Pools& pools = *backend->pools();
  EXPECT_TRUE(run(pools.list())->empty());
  ASSERT_TRUE(run(pools.create({"fast", {{"spec", json::object()}}, {5, 1, 10, 2}})));
  EXPECT_EQ(run(pools.create({"fast", {}, {}})).error().reason, "KUBERNETES::POOL_ALREADY_EXISTS");
  ASSERT_TRUE(run(pools.resize("fast", {6, 2, 20, 3})));
  const auto got = run(pools.get("fast"));
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->capacity, (api::PoolCapacity{6, 2, 20, 3}));
  EXPECT_FALSE(got->status) << "no controller has looked at it";
  EXPECT_TRUE(got->created_at);
  EXPECT_EQ(run(pools.list())->size(), 1u);
  ASSERT_TRUE(run(pools.remove("fast")));
  EXPECT_EQ(run(pools.get("fast")).error().reason, "KUBERNETES::POOL_NOT_FOUND");
  EXPECT_EQ(run(pools.resize("fast", {})).error().code, Code::NotFound);
}

TEST_F(KubernetesBackendTest, ASandboxIsMadeOfASnapshot) {
  begin();
  ASSERT_TRUE(create("a"));
  const std::string id = "00112233-4455-6677-8899-aabbccddeeff";
  const auto saved = run(backend->snapshots()->create({"a", id, "first", true}));
  ASSERT_TRUE(saved) << saved.error().message;
  EXPECT_TRUE(*run(backend->snapshots()->exists(id)));
  until([&] { return listener.snapshots.contains(id); });
  EXPECT_EQ(listener.snapshots[id].name, "first");
  EXPECT_EQ(listener.snapshots[id].sandbox_id, "a");

  SandboxSpec wanted = spec("b");
  api::CreateSandbox from = *wanted.create;
  from.image.reset();
  from.snapshot_id = id;
  wanted.create = std::make_shared<const api::CreateSandbox>(from);
  ASSERT_TRUE(run(backend->lifecycle().create(wanted)));
  EXPECT_EQ(kubernetes::find(cluster.workload("b"), {"spec", "template", "spec", "containers"})->at(0).at("image"),
            "reg.test/saved:1");

  ASSERT_TRUE(run(backend->snapshots()->remove(id)));
  until([&] { return !listener.snapshots.contains(id); });
  EXPECT_FALSE(*run(backend->snapshots()->exists(id)));
}

TEST_F(KubernetesBackendTest, AFailedSnapshotSaysWhy) {
  cluster.snapshot_fails_for = "RegistryNotConfigured";
  begin();
  ASSERT_TRUE(create("a"));
  const auto saved = run(backend->snapshots()->create({"a", "s", "", true}));
  ASSERT_FALSE(saved);
  EXPECT_THAT(saved.error().message, HasSubstr("RegistryNotConfigured: no"));
}

TEST_F(KubernetesBackendTest, AgentSandboxesAreASecondProvider) {
  options.provider = WorkloadProvider::AgentSandbox;
  begin();
  EXPECT_EQ(backend->pools(), nullptr);
  EXPECT_EQ(backend->snapshots(), nullptr);
  const std::string id = "00112233-4455-6677-8899-aabbccddeeff";
  const auto made = create(id);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->ports->route(44772).origin, "192.0.2.9:44772");
  EXPECT_EQ(made->identifiers.at("sandbox"), "sandbox-" + id);
  ASSERT_TRUE(run(backend->lifecycle().pause(id)));
  until([&] { return listener.known[id].state == InstanceState::Paused; });
  ASSERT_TRUE(run(backend->lifecycle().resume(id)));
  until([&] { return listener.known[id].state == InstanceState::Running; });
  const Timestamp later(std::chrono::seconds(4'000'000'000));
  ASSERT_TRUE(run(backend->lifecycle().set_deadline(id, later)));
  EXPECT_EQ(run(backend->lifecycle().inspect(id))->expires_at, later);
  ASSERT_TRUE(run(backend->lifecycle().remove(id)));
  until([&] { return !listener.known.contains(id); });
  EXPECT_EQ(cluster.count(kAgentSandboxes), 0u);
}

TEST_F(KubernetesBackendTest, PoliciesNeedTheSidecarsImageAndASharedNetworkStack) {
  begin();
  EXPECT_THAT(backend->capabilities().no_network_policy, HasSubstr("[egress] image"));
  end();
  listener.lists = 0;
  options.egress.image = "egress:1";
  begin();
  EXPECT_EQ(backend->capabilities().no_network_policy, "");
  end();
  listener.lists = 0;
  options.own_network_stack = true;
  begin();
  EXPECT_THAT(backend->capabilities().no_network_policy, HasSubstr("network stack"));
}

TEST_F(KubernetesBackendTest, AClusterWithoutTheControllerIsRefused) {
  kubernetes::testing::ApiServer bare(io);
  options.cluster = bare.config();
  const auto made = run(KubernetesBackend::connect(io.get_executor(), options));
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().reason, "KUBERNETES::INITIALIZATION_ERROR");
  EXPECT_THAT(made.error().message, HasSubstr("CRD"));
}

}  // namespace
}  // namespace osb::runtime
