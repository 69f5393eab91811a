#include "runtime/docker/docker_backend.h"

#include <filesystem>
#include <netinet/in.h>
#include <sys/socket.h>

#include <gmock/gmock.h>

#include "runtime/docker/engine_fixture.h"
#include "runtime/labels.h"

namespace osb::runtime {
namespace {

namespace json = boost::json;
using osb::testing::await;
using testing::FakeEngine;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

struct Heard final : Observer {
  explicit Heard(net::any_io_executor executor) : changed(std::move(executor)) {}
  void note(std::string what) {
    events.push_back(std::move(what));
    changed.notify_all();
  }
  void on_all(std::vector<Instance> instances) override { note("all " + std::to_string(instances.size())); }
  void on_change(Instance instance) override {
    note(instance.id + " " + std::to_string(static_cast<int>(instance.state)) + " " + instance.reason +
         instance.message);
    last = std::move(instance);
  }
  void on_removed(std::string id) override { note("removed " + id); }
  void on_lost(const Error&) override { note("lost"); }
  bool heard(const std::string& what) const {
    return std::ranges::any_of(events, [&](const std::string& event) { return event.contains(what); });
  }
  std::vector<std::string> events;
  Instance last;
  Notifier changed;
};

class DockerBackendTest : public ::testing::Test {
 protected:
  void SetUp() override {
    engine_.emplace(io_);
    engine_->images["debian"] = "amd64";
    options_.engine.host = "unix://" + engine_->socket();
    options_.docker.network_mode = "bridge";
    options_.docker.api_timeout = std::chrono::seconds(20);
    options_.execd_image = "/opt/execd";
    options_.publish_address = options_.public_host = "127.0.0.1";
  }
  void TearDown() override {
    await(io_, tasks_.close());
    if (backend_) await(io_, backend_->close());
  }

  Result<std::string> connect() {
    auto backend = await(io_, DockerBackend::connect(io_.get_executor(), options_));
    if (!backend) return Failure(backend.error());
    backend_ = std::move(*backend);
    return backend_->engine_name();
  }
  // Connected, and the observer knows all containers.
  void watch() {
    ASSERT_TRUE(connect());
    tasks_.spawn("watch", backend_->lifecycle().watch(heard_));
    until([&] { return heard_.heard("all"); });
  }
  void until(std::function<bool()> condition) { await(io_, heard_.changed.wait_until(std::move(condition))); }

  static SandboxSpec spec(api::CreateSandbox create = {}, const std::string& id = "a") {
    if (!create.image) create.image = api::ImageSpec{"debian", {}};
    create.entrypoint = {"sleep", "9"};
    SandboxSpec out{id, std::make_shared<const api::CreateSandbox>(create), "token", "", {}};
    out.labels = make_labels(id, create, std::nullopt);
    return out;
  }

  static api::Volume named_volume(const std::string& name, bool create = true, bool remove = false) {
    api::Volume out;
    out.name = name;
    out.mount_path = "/v";
    out.pvc.emplace();
    out.pvc->claim_name = name;
    out.pvc->create_if_not_exists = create;
    out.pvc->delete_on_sandbox_termination = remove;
    return out;
  }

  net::io_context io_{1};
  std::optional<FakeEngine> engine_;
  DockerOptions options_;
  std::unique_ptr<DockerBackend> backend_;
  Heard heard_{io_.get_executor()};
  TaskGroup tasks_{io_.get_executor()};
};

TEST_F(DockerBackendTest, AnEngineThatIsNotThereIsNamed) {
  options_.engine.host = "unix:///nowhere/docker.sock";
  const auto connected = connect();
  ASSERT_FALSE(connected);
  EXPECT_EQ(connected.error().reason, "DOCKER::INITIALIZATION_ERROR");
  EXPECT_THAT(connected.error().message, HasSubstr("/nowhere/docker.sock"));
}

TEST_F(DockerBackendTest, TheVersionIsAgreedUpon) {
  EXPECT_THAT(connect().value_or(""), HasSubstr("API 1.41"));
  engine_->api_version = "1.99";
  EXPECT_THAT(connect().value_or(""), HasSubstr("API 1.47"));
  engine_->api_version = "1.39";
  EXPECT_THAT(connect().error().message, HasSubstr("1.40"));
}

TEST_F(DockerBackendTest, MissingFeaturesOfTheEngineAreFoundAtTheStart) {
  options_.runtime = "runsc";
  EXPECT_THAT(connect().error().message, HasSubstr("it has: runc"));
  options_.runtime.clear();
  options_.docker.network_mode = "none";
  EXPECT_FALSE(connect());
  options_.docker.network_mode = "mine";
  ASSERT_TRUE(connect());
  const auto refused = backend_->lifecycle().check(*spec().create);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::InvalidRequest);
  EXPECT_THAT(refused.error().message, HasSubstr("\"mine\""));
}

TEST_F(DockerBackendTest, SandboxesGetANetworkWithoutTrafficBetweenThem) {
  watch();
  ASSERT_TRUE(await(io_, backend_->lifecycle().create(spec())));
  ASSERT_TRUE(engine_->networks.contains("opensandbox-isolated"));
  const json::value network = engine_->networks.at("opensandbox-isolated");
  EXPECT_EQ(engine::text(network, {"Options", "com.docker.network.bridge.enable_icc"}), "false");
  EXPECT_EQ(engine::text(network, {"Labels", "opensandbox.io/network"}), "shared");
  EXPECT_EQ(engine::text(engine_->containers.at("sandbox-a").body, {"HostConfig", "NetworkMode"}),
            "opensandbox-isolated");
  ASSERT_TRUE(await(io_, backend_->lifecycle().remove("a")));
  EXPECT_TRUE(engine_->networks.contains("opensandbox-isolated")) << "it belongs to all";
  EXPECT_THAT(backend_->capabilities().open_networks, HasSubstr("another machine")) << "nobody has closed it there";
}

TEST_F(DockerBackendTest, ANetworkThatWasRemovedIsMadeAgain) {
  watch();
  engine_->remove_network("opensandbox-isolated");
  await(io_, engine_->changed.wait_until([&] { return engine_->networks.contains("opensandbox-isolated"); }));
  ASSERT_TRUE(await(io_, backend_->lifecycle().create(spec())));
}

TEST_F(DockerBackendTest, ANetworkOfThatNameThatIsOpenIsNotUsed) {
  engine_->networks["opensandbox-isolated"] = {{"Name", "opensandbox-isolated"}, {"Labels", json::object()}};
  watch();
  const auto refused = await(io_, backend_->lifecycle().create(spec()));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("opensandbox-isolated"));
  EXPECT_TRUE(engine_->containers.empty());
}

TEST_F(DockerBackendTest, TheOperatorMayWantTheEnginesBridge) {
  options_.docker.isolate_network = false;
  watch();
  ASSERT_TRUE(await(io_, backend_->lifecycle().create(spec())));
  EXPECT_TRUE(engine_->networks.empty());
  EXPECT_EQ(engine::text(engine_->containers.at("sandbox-a").body, {"HostConfig", "NetworkMode"}), "bridge");
}

TEST_F(DockerBackendTest, OnPodmanEachSandboxHasANetworkThatGoesWithIt) {
  engine_->product = "Podman Engine";
  const auto old = [](const char* sandbox, const char* created) {
    return json::object{{"Name", std::string("opensandbox-") + sandbox},
                        {"Created", created},
                        {"Labels", json::object{{"opensandbox.io/network", sandbox}}}};
  };
  engine_->networks["opensandbox-lost"] = old("lost", "2020-01-01T00:00:00Z");
  engine_->networks["opensandbox-young"] = old("young", "2199-01-01T00:00:00Z");
  watch();
  EXPECT_FALSE(engine_->networks.contains("opensandbox-lost")) << "of a create that was killed";
  EXPECT_TRUE(engine_->networks.contains("opensandbox-young")) << "maybe of a create under way";
  ASSERT_TRUE(await(io_, backend_->lifecycle().create(spec())));
  const json::value network = engine_->networks.at("opensandbox-a");
  EXPECT_EQ(engine::text(network, {"Options", "isolate"}), "true");
  EXPECT_EQ(engine::text(network, {"Options", "com.docker.network.bridge.name"}), "osbc-a")
      << "the wall knows it by that";
  EXPECT_EQ(engine::text(engine_->containers.at("sandbox-a").body, {"HostConfig", "NetworkMode"}), "opensandbox-a");
  ASSERT_TRUE(await(io_, backend_->lifecycle().remove("a")));
  EXPECT_FALSE(engine_->networks.contains("opensandbox-a"));
}

TEST_F(DockerBackendTest, ACreateTakesThreeCallsAndExecdsAnswer) {
  watch();
  ASSERT_TRUE(await(io_, backend_->lifecycle().create(spec())));  // has looked for the image
  Result<Instance> made;
  do {  // again when another program on this machine took the port
    ASSERT_TRUE(await(io_, backend_->lifecycle().remove("a")));
    engine_->calls.clear();
    engine_->clashes = 0;
    made = await(io_, backend_->lifecycle().create(spec()));
    ASSERT_TRUE(made) << made.error().message;
  } while (engine_->clashes > 0);
  EXPECT_EQ(made->state, InstanceState::Running);
  EXPECT_THAT(engine_->calls, ::testing::ElementsAre("POST /containers/create", "POST /containers/sandbox-a/start",
                                                     "GET /containers/sandbox-a/json"));
  EXPECT_THAT(made->ports->client_route(44772).endpoint, MatchesRegex("127\\.0\\.0\\.1:[0-9]+/proxy/44772"));
  EXPECT_THAT(made->ports->client_route(8080).endpoint, MatchesRegex("127\\.0\\.0\\.1:[0-9]+"));
  EXPECT_THAT(made->ports->client_route(5).endpoint, MatchesRegex("127\\.0\\.0\\.1:[0-9]+/proxy/5"));
}

TEST_F(DockerBackendTest, APortThatIsTakenMeanwhileIsExchanged) {
  watch();
  engine_->refuse_start = {"driver failed: Bind for 127.0.0.1:1 failed: port is already allocated"};
  const auto made = await(io_, backend_->lifecycle().create(spec()));
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(engine_->count("POST /containers/create"), 2 + engine_->clashes);
  EXPECT_EQ(engine_->containers.size(), 1u);
}

// As Podman answers while it finishes the create of a server that was killed.
TEST_F(DockerBackendTest, AContainerThatIsStillBeingMadeIsWaitedFor) {
  watch();
  const std::string taken =
      "creating container storage: the container name \"sandbox-a\" is already in use by c1. You have to remove that "
      "container to be able to reuse that name: that name is already in use";
  engine_->refuse_create = {taken, taken, taken};
  const auto made = await(io_, backend_->lifecycle().create(spec()));
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->state, InstanceState::Running);
  EXPECT_TRUE(engine_->refuse_create.empty());
  EXPECT_EQ(engine_->containers.size(), 1u);
}

TEST_F(DockerBackendTest, AFailedCreateLeavesNothing) {
  watch();
  engine_->refuse_start = {"no such device"};
  api::CreateSandbox create;
  create.volumes.push_back(named_volume("data"));
  const auto made = await(io_, backend_->lifecycle().create(spec(create)));
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().reason, "DOCKER::SANDBOX_START_FAILED");
  EXPECT_EQ(made.error().message, "no such device");
  EXPECT_TRUE(engine_->containers.empty());
  EXPECT_TRUE(engine_->volumes.empty());
}

TEST_F(DockerBackendTest, AVolumeThatMustExistIsNotMade) {
  watch();
  api::CreateSandbox create;
  create.volumes.push_back(named_volume("data", false));
  EXPECT_EQ(await(io_, backend_->lifecycle().create(spec(create))).error().reason, "VOLUME::PVC_NOT_FOUND");
}

TEST_F(DockerBackendTest, ManagedVolumesGoWithTheirSandbox) {
  watch();
  engine_->volumes["old"];
  api::CreateSandbox create;
  for (const char* name : {"old", "new"}) {
    create.volumes.push_back(named_volume(name, true, true));
  }
  ASSERT_TRUE(await(io_, backend_->lifecycle().create(spec(create))));
  EXPECT_TRUE(engine_->volumes.contains("new"));
  ASSERT_TRUE(await(io_, backend_->lifecycle().remove("a")));
  EXPECT_FALSE(engine_->volumes.contains("new"));
  EXPECT_TRUE(engine_->volumes.contains("old"));
}

TEST_F(DockerBackendTest, AMissingImageIsPulledOnceAndProgressIsHeard) {
  watch();
  engine_->pullable["alpine"] = "amd64";
  engine_->hold_pulls = true;
  api::CreateSandbox create;
  create.image = api::ImageSpec{"alpine", {}};
  SandboxSpec second = spec(create);
  second.id = "b";
  int over = 0;
  const auto run = [&](SandboxSpec wanted) -> net::awaitable<void> {
    const auto made = co_await backend_->lifecycle().create(std::move(wanted));
    EXPECT_TRUE(made) << made.error().message;
    ++over;
    heard_.changed.notify_all();
  };
  tasks_.spawn("first", run(spec(create)));
  tasks_.spawn("second", run(second));
  until([&] { return heard_.heard("a 0 pulling 45%") && heard_.heard("b 0 pulling 45%"); });
  engine_->hold_pulls = false;
  engine_->changed.notify_all();
  until([&] { return over == 2; });
  EXPECT_EQ(engine_->count("POST /images/create"), 1);
}

TEST_F(DockerBackendTest, APullThatFailsSaysWhy) {
  watch();
  api::CreateSandbox create;
  create.image = api::ImageSpec{"secret", {}};
  const auto made = await(io_, backend_->lifecycle().create(spec(create)));
  EXPECT_EQ(made.error().reason, "DOCKER::SANDBOX_IMAGE_PULL_FAILED");
  EXPECT_EQ(made.error().message, "image secret: unauthorized");
}

TEST_F(DockerBackendTest, AnImageThatWentAwayIsFetchedAgain) {
  watch();
  ASSERT_TRUE(await(io_, backend_->lifecycle().create(spec())));
  ASSERT_TRUE(await(io_, backend_->lifecycle().remove("a")));
  engine_->images.clear();
  engine_->pullable["debian"] = "amd64";
  EXPECT_TRUE(await(io_, backend_->lifecycle().create(spec())));
}

TEST_F(DockerBackendTest, AnImageOfAnotherPlatformIsNotUsed) {
  watch();
  engine_->pullable["debian"] = "amd64";
  api::CreateSandbox create;
  create.platform = api::Platform{"linux", "arm64"};
  const auto made = await(io_, backend_->lifecycle().create(spec(create)));
  EXPECT_EQ(made.error().reason, "DOCKER::SANDBOX_IMAGE_PULL_FAILED");
  EXPECT_THAT(made.error().message, HasSubstr("it is for linux/amd64, not for linux/arm64"));
}

TEST_F(DockerBackendTest, ARemoveEndsACreate) {
  watch();
  engine_->execd_answers = false;
  bool over = false;
  const auto run = [&]() -> net::awaitable<void> {
    EXPECT_EQ((co_await backend_->lifecycle().create(spec())).error().code, Code::Cancelled);
    over = true;
  };
  tasks_.spawn("create", run());
  await(io_, engine_->changed.wait_until([&] { return engine_->count("GET /containers/sandbox-a/json") > 0; }));
  EXPECT_TRUE(await(io_, backend_->lifecycle().remove("a")));
  EXPECT_TRUE(over);
  EXPECT_TRUE(engine_->containers.empty());
}

TEST_F(DockerBackendTest, ACreateGoesOnWhereAnEarlierOneEnded) {
  ASSERT_TRUE(connect());
  ASSERT_TRUE(await(io_, backend_->lifecycle().create(spec())));
  engine_->containers.at("sandbox-a").execd.reset();
  engine_->containers.at("sandbox-a").status = "created";  // and its server was killed
  watch();
  EXPECT_FALSE(heard_.heard("all 1"));
  const auto made = await(io_, backend_->lifecycle().create(spec()));
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->state, InstanceState::Running);
  EXPECT_EQ(engine_->containers.size(), 1u);
}

TEST_F(DockerBackendTest, AnEntrypointThatIsOverAtOnceIsAnEnd) {
  watch();
  engine_->execd_answers = false;
  std::optional<Result<Instance>> made;
  const auto run = [&]() -> net::awaitable<void> {
    made = co_await backend_->lifecycle().create(spec());
    heard_.changed.notify_all();
  };
  tasks_.spawn("create", run());
  await(io_, engine_->changed.wait_until([&] { return engine_->count("GET /containers/sandbox-a/json") > 0; }));
  engine_->end("a", 3);
  until([&] { return made.has_value(); });
  ASSERT_TRUE(*made);
  EXPECT_EQ((*made)->state, InstanceState::Ended);
  EXPECT_EQ((*made)->exit_code, 3);
}

TEST_F(DockerBackendTest, EventsOfTheEngineReachTheObserver) {
  watch();
  ASSERT_TRUE(await(io_, backend_->lifecycle().create(spec())));
  engine_->end("a", 137);
  until([&] { return heard_.heard("CONTAINER_EXITED_ERROR"); });
  EXPECT_EQ(heard_.last.exit_code, 137);
  engine_->containers.at("sandbox-a").execd.reset();
  engine_->containers.erase("sandbox-a");
  engine_->say("destroy", "a");
  until([&] { return heard_.heard("removed a"); });
}

TEST_F(DockerBackendTest, ALostStreamIsOpenedAgainAndEverythingListed) {
  watch();
  ASSERT_TRUE(await(io_, backend_->lifecycle().create(spec())));
  engine_->stop_events();
  until([&] { return heard_.heard("lost"); });
  until([&] { return heard_.heard("all 1"); });
  engine_->end("a", 0);
  until([&] { return heard_.heard("CONTAINER_EXITED"); });
}

TEST_F(DockerBackendTest, OneThatIsPausedMayBePausedAgain) {
  watch();
  ASSERT_TRUE(await(io_, backend_->lifecycle().create(spec())));
  EXPECT_TRUE(await(io_, backend_->lifecycle().pause("a")));
  EXPECT_TRUE(await(io_, backend_->lifecycle().pause("a")));
  EXPECT_EQ(heard_.last.state, InstanceState::Paused);
  EXPECT_TRUE(await(io_, backend_->lifecycle().resume("a")));
  EXPECT_FALSE(await(io_, backend_->lifecycle().pause("b")));
}

// The event is used up by then, and no other follows.
TEST_F(DockerBackendTest, AnEndIsHeardAlsoWhenTheEngineCannotBeAskedAtOnce) {
  watch();
  ASSERT_TRUE(await(io_, backend_->lifecycle().create(spec())));
  engine_->refuse_inspect = {"too many open files", "too many open files"};
  engine_->end("a", 137);
  until([&] { return heard_.heard("CONTAINER_EXITED_ERROR"); });
  EXPECT_TRUE(engine_->refuse_inspect.empty());
}

TEST_F(DockerBackendTest, AnEndWhileExecdAnswersIsAnEnd) {
  watch();
  ASSERT_TRUE(await(io_, backend_->lifecycle().create(spec({}, "b"))));
  engine_->before_ping = [this]() -> net::awaitable<void> {
    engine_->before_ping = [] -> net::awaitable<void> { co_return; };
    engine_->calls.clear();
    engine_->end("a", 3);
    // The event behind it has arrived, so the end has arrived too.
    engine_->end("b", 0);
    co_await engine_->changed.wait_until([this] { return engine_->count("GET /containers/sandbox-b/json") > 0; });
  };
  const auto made = await(io_, backend_->lifecycle().create(spec()));
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->state, InstanceState::Ended);
  EXPECT_EQ(made->exit_code, 3);
}

TEST_F(DockerBackendTest, ASnapshotWhoseAnswerIsLostIsMadeAgain) {
  watch();
  ASSERT_TRUE(await(io_, backend_->lifecycle().create(spec())));
  engine_->lost_commits = 1;
  const auto made = await(io_, backend_->snapshots()->create({"a", "s"}));
  EXPECT_TRUE(made) << made.error().message;
  EXPECT_EQ(engine_->containers.at("sandbox-a").status, "running");
  EXPECT_TRUE(*await(io_, backend_->snapshots()->exists("s")));
}

TEST_F(DockerBackendTest, ASnapshotThatCannotBeMadeEndsAndItsSandboxGoesOn) {
  watch();
  ASSERT_TRUE(await(io_, backend_->lifecycle().create(spec())));
  engine_->lost_commits = 100;
  const auto made = await(io_, backend_->snapshots()->create({"a", "s"}));
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().message, "busy");
  EXPECT_EQ(engine_->containers.at("sandbox-a").status, "running");
  // A container that was paused before stays paused.
  ASSERT_TRUE(await(io_, backend_->lifecycle().pause("a")));
  EXPECT_FALSE(await(io_, backend_->snapshots()->create({"a", "s"})));
  EXPECT_EQ(engine_->containers.at("sandbox-a").status, "paused");
}

// Two creates that wait for execd's image, the second of them for what the first does.
class DockerStageTest : public DockerBackendTest {
 protected:
  void SetUp() override {
    DockerBackendTest::SetUp();
    options_.execd_image = "execd";
    engine_->pullable["execd"] = "amd64";
    engine_->hold_pulls = true;
    ASSERT_TRUE(connect());
    tasks_.spawn("first", run("a"));
    await(io_, engine_->changed.wait_until([&] { return engine_->count("POST /images/create") == 1; }));
    tasks_.spawn("second", run("b"));
    await(io_, []() -> net::awaitable<void> { co_return; }());  // it has begun; all it needs but this is there
  }
  net::awaitable<void> run(std::string id) {
    ended_.emplace(id, co_await backend_->lifecycle().create(spec({}, id)));
    heard_.changed.notify_all();
  }
  std::map<std::string, Result<Instance>> ended_;
};

TEST_F(DockerStageTest, OneThatIsRemovedDoesNotTakeTheOthersAlong) {
  ASSERT_TRUE(await(io_, backend_->lifecycle().remove("a")));
  EXPECT_EQ(ended_.at("a").error().code, Code::Cancelled);
  engine_->hold_pulls = false;
  engine_->changed.notify_all();
  until([&] { return ended_.contains("b"); });
  EXPECT_TRUE(ended_.at("b")) << ended_.at("b").error().message;
}

TEST_F(DockerStageTest, OneThatWaitsForAnotherCanBeRemoved) {
  ASSERT_TRUE(await(io_, backend_->lifecycle().remove("b")));
  EXPECT_EQ(ended_.at("b").error().code, Code::Cancelled);
  engine_->hold_pulls = false;
  engine_->changed.notify_all();
  until([&] { return ended_.contains("a"); });
  EXPECT_TRUE(ended_.at("a")) << ended_.at("a").error().message;
}

// A peer that is gone without a word is noticed also where only it would have to speak.
TEST_F(DockerBackendTest, ConnectionsToAnotherMachineAreKeptAlive) {
  const std::uint16_t port = engine_->listen_tcp();
  options_.engine.host = "tcp://127.0.0.1:" + std::to_string(port);
  watch();
  int connections = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename());
    sockaddr_in peer{};
    socklen_t size = sizeof peer;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0 || peer.sin_family != AF_INET) continue;
    if (ntohs(peer.sin_port) != port) continue;
    ++connections;
    int on = 0;
    size = sizeof on;
    ASSERT_EQ(::getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, &size), 0);
    EXPECT_EQ(on, 1);
  }
  EXPECT_GT(connections, 0);
}

TEST_F(DockerBackendTest, ForeignContainersAreLeftAlone) {
  engine_->containers["web"].body = boost::json::parse(R"({"Image":"debian","Labels":{"opensandbox.io/id":"a"}})");
  watch();
  EXPECT_TRUE(heard_.heard("all 0"));
  EXPECT_TRUE(await(io_, backend_->lifecycle().remove("a")));
  EXPECT_TRUE(engine_->containers.contains("web"));
}

std::string log_frame(const std::string& text) {
  const std::string line = "2023-11-14T22:13:20.000000000Z " + text;
  return std::string("\x01\0\0\0\0\0\0", 7) + static_cast<char>(line.size()) + line;
}

TEST_F(DockerBackendTest, ALogEndsWithItsSandboxThoughTheEngineKeepsItOpen) {
  options_.log_silence = std::chrono::milliseconds(1);
  engine_->log = {log_frame("first\n"), log_frame("last\n")};
  watch();
  ASSERT_TRUE(await(io_, backend_->lifecycle().create(spec())));
  auto stream = await(io_, backend_->logs()->open("a", {.follow = true}));
  ASSERT_TRUE(stream) << stream.error().message;
  const auto next = [&] {
    auto pieces = await(io_, (*stream)->next());
    EXPECT_TRUE(pieces) << pieces.error().message;
    return pieces && !pieces->empty() ? pieces->front().text : "";
  };
  EXPECT_EQ(next(), "first\n");
  engine_->end("a", 0);
  EXPECT_EQ(next(), "last\n");
  EXPECT_EQ(next(), "");
}

}  // namespace
}  // namespace osb::runtime
