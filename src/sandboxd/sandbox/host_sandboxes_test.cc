#include "sandboxd/sandbox/host_sandboxes.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "async/signals.h"
#include "sandboxd/sandbox/sandbox_fixture.h"
#include "support/await.h"
#include "support/temp_dir.h"

namespace osb::sandboxd {
namespace {

namespace fs = std::filesystem;
using api::native::State;
using osb::testing::await;
using testing::FakeHost;

// A daemon on a host that outlives it.
class HostSandboxesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: directories belong to it";
    ignore_sigpipe();
    config_ = testing::test_config(dir_.path());
    start();
  }
  void TearDown() override {
    if (sandboxes_) stop();
  }

  void start() {
    auto builder = SandboxBuilder::open(config_, host_.parts(pool_, clock_));
    ASSERT_TRUE(builder) << builder.error().message;
    builder_ = std::move(*builder);
    auto snapshots = SnapshotStore::open(dir_ / "state/snapshots");
    ASSERT_TRUE(snapshots) << snapshots.error().message;
    snapshots_ = std::move(*snapshots);
    ImageServiceConfig images;
    images.directory = dir_ / "state/images";
    auto opened = ImageService::open(io_.get_executor(), images);
    ASSERT_TRUE(opened) << opened.error().message;
    images_ = std::move(*opened);
    sandboxes_ = std::make_unique<HostSandboxes>(io_.get_executor(), pool_, *builder_, *images_, *snapshots_);
    sandboxes_->recover();
    sandboxes_->start();
  }
  // As after a kill -9, nothing is torn down.
  void stop() {
    sandboxes_->end_watching();
    await(io_, sandboxes_->close());
    await(io_, images_->close());
    sandboxes_.reset();
    images_.reset();
    snapshots_.reset();
    builder_.reset();
    io_.restart();
    io_.poll();
    host_.end_daemon();
  }
  // With something that happens while no daemon runs.
  void restart(const std::function<void()>& meanwhile = [] {}) {
    stop();
    meanwhile();
    start();
  }

  static api::native::CreateSandbox request(const std::string& id) {
    api::native::CreateSandbox out;
    out.id = id;
    out.image = "host";
    return out;
  }
  Result<api::native::SandboxStatus> create(const api::native::CreateSandbox& spec) {
    return await(io_, sandboxes_->create(spec));
  }
  State state(const std::string& id) const {
    const auto found = sandboxes_->inspect(id);
    EXPECT_TRUE(found) << found.error().message;
    return found ? found->state : State::Failed;
  }
  // Runs the loop until the sandbox is in that state.
  void wait_for(const std::string& id, State wanted) {
    io_.restart();
    while (state(id) != wanted) io_.run_one();
  }
  std::string directory(const std::string& id) const { return config_.directory(id); }
  SandboxRecord saved(const std::string& id) const {
    auto record = load_record(directory(id));
    EXPECT_TRUE(record) << record.error().message;
    return record ? *record : SandboxRecord();
  }
  void change(const std::string& id, const std::function<void(SandboxRecord&)>& how) {
    SandboxRecord record = saved(id);
    how(record);
    ASSERT_TRUE(save_record(directory(id), record));
  }

  osb::testing::TempDir dir_;
  FakeHost host_;
  FakeClock clock_;
  net::io_context io_{1};
  BlockingPool pool_{4};
  SandboxConfig config_;
  std::unique_ptr<SandboxBuilder> builder_;
  std::unique_ptr<SnapshotStore> snapshots_;
  std::unique_ptr<ImageService> images_;
  std::unique_ptr<HostSandboxes> sandboxes_;
};

TEST_F(HostSandboxesTest, ACreateReturnsWhenExecdAnswers) {
  const auto made = create(request("box"));
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->state, State::Running);
  EXPECT_EQ(made->address, "10.90.0.1");
  EXPECT_EQ(made->created_at, clock_.now());
  EXPECT_EQ(create(request("box")).error().code, Code::Conflict);
  ASSERT_TRUE(await(io_, sandboxes_->remove("box")));
  EXPECT_TRUE(host_.unused()) << host_.describe();
  EXPECT_FALSE(fs::exists(directory("box")));
  EXPECT_EQ(await(io_, sandboxes_->remove("box")).error().code, Code::NotFound);
}

TEST_F(HostSandboxesTest, AFailedCreateIsGoneAndWatchersHearWhy) {
  const auto watcher = sandboxes_->watch();
  host_.fail_call("launch");
  const auto made = create(request("box"));
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().reason, "NATIVE::SANDBOX_START_FAILED");
  EXPECT_TRUE(sandboxes_->list().empty());
  EXPECT_TRUE(host_.unused()) << host_.describe();
  const auto changes = await(io_, watcher->next());
  ASSERT_TRUE(changes.contains("box"));
  ASSERT_TRUE(changes.at("box"));
  EXPECT_EQ(changes.at("box")->message, made.error().message);
}

TEST_F(HostSandboxesTest, ARemoveEndsACreateThatWaitsForExecd) {
  host_.execd_answers = false;
  auto made = net::co_spawn(io_, sandboxes_->create(request("box")), net::use_future);
  // The process exists: the create waits for its answer.
  io_.restart();
  while (host_.group("box") == nullptr || host_.group("box")->processes.empty()) io_.run_one();
  EXPECT_TRUE(await(io_, sandboxes_->remove("box")));
  io_.restart();
  while (made.wait_for(std::chrono::seconds(0)) != std::future_status::ready) io_.run_one();
  EXPECT_EQ(made.get().error().code, Code::Cancelled);
  EXPECT_TRUE(host_.unused()) << host_.describe();
}

TEST_F(HostSandboxesTest, TheEndOfPidOneIsRecordedAndItsSlotGivenBack) {
  ASSERT_TRUE(create(request("box")));
  clock_.advance(std::chrono::seconds(5));
  host_.end_process("box");
  wait_for("box", State::Exited);
  EXPECT_EQ(sandboxes_->inspect("box")->exit->signal, SIGKILL);
  EXPECT_EQ(saved("box").status.ended_at, clock_.now());
  EXPECT_TRUE(host_.unused()) << host_.describe();
  EXPECT_TRUE(fs::exists(directory("box"))) << "its logs stay";
  restart();
  EXPECT_EQ(state("box"), State::Exited);
  EXPECT_TRUE(await(io_, sandboxes_->remove("box")));
}

TEST_F(HostSandboxesTest, APausedSandboxIsFrozenAndRefusesConnections) {
  ASSERT_TRUE(create(request("box")));
  ASSERT_TRUE(await(io_, sandboxes_->pause("box")));
  EXPECT_TRUE(await(io_, sandboxes_->pause("box"))) << "paused already";
  EXPECT_TRUE(host_.group("box")->frozen);
  EXPECT_EQ(host_.refused(), std::set<unsigned>{1});
  EXPECT_EQ(saved("box").status.state, State::Paused);
  EXPECT_EQ(await(io_, sandboxes_->connect("box", 80)).error().code, Code::Conflict);
  ASSERT_TRUE(await(io_, sandboxes_->resume("box")));
  EXPECT_FALSE(host_.group("box")->frozen);
  EXPECT_TRUE(host_.refused().empty());
}

TEST_F(HostSandboxesTest, APauseThatFailsChangesNothing) {
  ASSERT_TRUE(create(request("box")));
  host_.fail_call("freeze");
  EXPECT_FALSE(await(io_, sandboxes_->pause("box")));
  EXPECT_TRUE(host_.refused().empty());
  // The record cannot be written.
  fs::rename(directory("box"), dir_ / "away");
  EXPECT_FALSE(await(io_, sandboxes_->pause("box")));
  fs::rename(dir_ / "away", directory("box"));
  EXPECT_FALSE(host_.group("box")->frozen);
  EXPECT_TRUE(host_.refused().empty());
  EXPECT_EQ(state("box"), State::Running);
}

TEST_F(HostSandboxesTest, ALivingSandboxIsFoundAgain) {
  api::native::CreateSandbox spec = request("box");
  spec.ports = {{80, 8080, "tcp"}};
  ASSERT_TRUE(create(spec));
  restart();
  EXPECT_EQ(state("box"), State::Running);
  EXPECT_EQ(host_.slots(), std::set<unsigned>{1});
  EXPECT_EQ(host_.ports().size(), 1U) << "its port is published again";
  host_.end_process("box");
  wait_for("box", State::Exited);
  EXPECT_TRUE(host_.unused()) << host_.describe();
}

TEST_F(HostSandboxesTest, AFrozenSandboxStaysPausedOnlyIfItWasPaused) {
  ASSERT_TRUE(create(request("asked")));
  ASSERT_TRUE(create(request("cut-off")));
  ASSERT_TRUE(await(io_, sandboxes_->pause("asked")));
  host_.group("cut-off")->frozen = true;  // a snapshot was being taken
  restart();
  EXPECT_EQ(state("asked"), State::Paused);
  EXPECT_EQ(state("cut-off"), State::Running);
  EXPECT_FALSE(host_.group("cut-off")->frozen);
  EXPECT_EQ(host_.refused().size(), 1U);
}

TEST_F(HostSandboxesTest, ASandboxThatEndedMeanwhileHasExited) {
  ASSERT_TRUE(create(request("box")));
  restart([&] { host_.end_process("box"); });
  EXPECT_EQ(state("box"), State::Exited);
  EXPECT_TRUE(host_.unused()) << host_.describe();
  EXPECT_EQ(saved("box").status.state, State::Exited);
}

TEST_F(HostSandboxesTest, AfterARestartOfTheHostSandboxesSayWhyTheyEnded) {
  ASSERT_TRUE(create(request("box")));
  restart([&] {
    host_.end_process("box");
    change("box", [](SandboxRecord& record) { record.process->boot_id = "another"; });
  });
  EXPECT_EQ(state("box"), State::Exited);
  EXPECT_EQ(sandboxes_->inspect("box")->reason, "HOST_RESTARTED");
}

TEST_F(HostSandboxesTest, CreatesThatWereCutOffAreUndone) {
  api::native::CreateSandbox spec = request("no-process");
  spec.volumes = {
      {.kind = VolumeKind::Named, .source = "goes", .target = "/v", .create = true, .delete_with_sandbox = true}};
  ASSERT_TRUE(create(spec));
  ASSERT_TRUE(create(request("no-record")));
  ASSERT_TRUE(create(request("empty-record")));
  restart([&] {
    change("no-process", [](SandboxRecord& record) { record.process.reset(); });
    fs::remove(directory("no-record") + "/record.json");
    std::ofstream(directory("empty-record") + "/record.json", std::ios::trunc).flush();
  });
  EXPECT_TRUE(sandboxes_->list().empty());
  EXPECT_TRUE(host_.unused()) << host_.describe();
  EXPECT_TRUE(fs::is_empty(dir_ / "state/sandboxes"));
  EXPECT_TRUE(fs::is_empty(dir_ / "run/execd"));
  EXPECT_TRUE(fs::is_empty(dir_ / "state/trash"));
}

TEST_F(HostSandboxesTest, RemovesThatWereCutOffAreFinished) {
  ASSERT_TRUE(create(request("box")));
  restart([&] { change("box", [](SandboxRecord& record) { record.removing = true; }); });
  EXPECT_TRUE(sandboxes_->list().empty());
  EXPECT_TRUE(host_.unused()) << host_.describe();
  EXPECT_FALSE(fs::exists(directory("box")));
}

TEST_F(HostSandboxesTest, ARecordThatCannotBeReadStaysForPeopleAndItsProcessesEnd) {
  ASSERT_TRUE(create(request("box")));
  restart([&] { std::ofstream(directory("box") + "/record.json", std::ios::trunc) << "{nonsense"; });
  EXPECT_TRUE(sandboxes_->list().empty());
  EXPECT_TRUE(host_.unused()) << host_.describe();
  EXPECT_TRUE(fs::exists(directory("box") + "/upper"));
  EXPECT_EQ(create(request("box")).error().code, Code::Conflict);
}

TEST_F(HostSandboxesTest, CgroupsAndSocketsThatNobodyOwnsAreSwept) {
  ASSERT_TRUE(create(request("box")));
  ASSERT_TRUE(create(request("gone")));
  restart([&] {
    fs::remove_all(directory("gone"));
    std::ofstream(dir_ / "run/execd/stranger.sock").flush();
  });
  EXPECT_EQ(sandboxes_->list().size(), 1U);
  EXPECT_EQ(host_.group("gone"), nullptr);
  EXPECT_FALSE(fs::exists(dir_ / "run/execd/gone.sock"));
  EXPECT_FALSE(fs::exists(dir_ / "run/execd/stranger.sock"));
  EXPECT_TRUE(fs::exists(dir_ / "run/execd/box.sock"));
}

TEST_F(HostSandboxesTest, ASandboxWhoseSlotIsLostEnds) {
  ASSERT_TRUE(create(request("box")));
  restart([&] { host_.fail_call("adopt slot"); });
  EXPECT_EQ(state("box"), State::Exited);
  EXPECT_TRUE(host_.unused()) << host_.describe();
}

}  // namespace
}  // namespace osb::sandboxd
