#include "sandboxd/sandbox/sandbox_builder.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "sandboxd/sandbox/sandbox_fixture.h"
#include "support/temp_dir.h"

namespace osb::sandboxd {
namespace {

namespace fs = std::filesystem;
using testing::FakeHost;

class SandboxBuilderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: directories belong to it";
    SandboxConfig config = testing::test_config(dir_.path());
    config.after_step = [this](std::string_view step) {
      if (step == break_after_) fs::remove_all(dir_ / "state/sandboxes/box");
    };
    auto builder = SandboxBuilder::open(std::move(config), host_.parts(pool_, clock_));
    ASSERT_TRUE(builder) << builder.error().message;
    builder_ = std::move(*builder);
    base_.image.kind = ResolvedImage::Kind::Host;
    base_.image.name = "host";
  }

  // A sandbox that takes something of every part.
  static SandboxRecord record() {
    SandboxRecord out;
    out.spec.id = out.status.id = "box";
    out.spec.image = "host";
    out.spec.volumes = {
        {.kind = VolumeKind::Named, .source = "kept", .target = "/kept", .create = true},
        {.kind = VolumeKind::Named, .source = "goes", .target = "/goes", .create = true, .delete_with_sandbox = true}};
    out.spec.ports = {{80, 8080, "tcp"}, {53, 5353, "udp"}};
    return out;
  }

  Result<LiveSandbox> build(SandboxRecord& record) { return builder_->build(record, base_); }
  bool has_files() const { return fs::exists(dir_ / "state/sandboxes/box") || fs::exists(dir_ / "run/execd/box.sock"); }

  osb::testing::TempDir dir_;
  FakeHost host_;
  FakeClock clock_;
  BlockingPool pool_{2};
  std::string break_after_;  // the sandbox's directory is gone after this step
  std::unique_ptr<SandboxBuilder> builder_;
  SandboxBase base_;
};

TEST_F(SandboxBuilderTest, ACreateThatFailsAnywhereLeavesNothing) {
  struct {
    const char* call;
    int nth;
  } rows[] = {
      {"take slot", 1}, {"list volumes", 1}, {"prepare volumes", 1}, {"create cgroup", 1},
      {"launch", 1},    {"publish", 1},      {"publish", 2},
  };
  for (const auto& row : rows) {
    SandboxRecord wanted = record();
    host_.fail_call(row.call, row.nth);
    const auto built = build(wanted);
    ASSERT_FALSE(built) << row.call;
    EXPECT_EQ(built.error().message, std::string("told to fail: ") + row.call);
    EXPECT_TRUE(host_.unused()) << row.call << ": " << host_.describe();
    EXPECT_FALSE(has_files()) << row.call;
  }
}

TEST_F(SandboxBuilderTest, ACreateWhoseRecordCannotBeWrittenLeavesNothing) {
  for (const char* step : {"directories", "slot", "volumes", "cgroup", "launched"}) {
    SandboxRecord wanted = record();
    break_after_ = step;
    EXPECT_FALSE(build(wanted)) << step;
    EXPECT_TRUE(host_.unused()) << step << ": " << host_.describe();
    EXPECT_FALSE(has_files()) << step;
  }
}

TEST_F(SandboxBuilderTest, AnInvalidRequestTakesNothing) {
  SandboxRecord wanted = record();
  wanted.spec.dns = {"not an address"};
  host_.fail_call("create cgroup");
  EXPECT_EQ(build(wanted).error().code, Code::InvalidRequest);
  EXPECT_TRUE(host_.unused()) << host_.describe();
}

TEST_F(SandboxBuilderTest, ADirectoryThatIsThereIsNotTouched) {
  fs::create_directories(dir_ / "state/sandboxes/box/upper");
  SandboxRecord wanted = record();
  EXPECT_EQ(build(wanted).error().code, Code::Conflict);
  EXPECT_TRUE(fs::exists(dir_ / "state/sandboxes/box/upper"));
}

TEST_F(SandboxBuilderTest, TheRecordOnDiskKnowsEverythingThatWasTaken) {
  SandboxRecord made = record();
  auto live = build(made);
  ASSERT_TRUE(live) << live.error().message;
  const auto saved = load_record((dir_ / "state/sandboxes/box").string());
  ASSERT_TRUE(saved) << saved.error().message;
  EXPECT_EQ(saved->slot, 1U);
  EXPECT_EQ(saved->process, made.process);
  EXPECT_EQ(saved->status.address, "10.90.0.1");
  EXPECT_EQ(saved->status.ports, made.spec.ports);
  EXPECT_EQ(saved->status.started_at, clock_.now());
  EXPECT_EQ(saved->volumes, (std::vector<std::string>{"kept", "goes"}));
  EXPECT_EQ(saved->volumes_to_delete, std::vector<std::string>{"goes"});

  builder_->teardown().end(made, std::move(*live));
  builder_->teardown().erase(made);
  EXPECT_EQ(host_.volumes(), std::set<std::string>{"kept"});
  host_.volumes().clear();
  EXPECT_TRUE(host_.unused()) << host_.describe();
  EXPECT_FALSE(has_files());
}

TEST_F(SandboxBuilderTest, AdoptionTakesTheRecordedSlotVolumesAndPortsAgain) {
  SandboxRecord made = record();
  auto live = build(made);
  ASSERT_TRUE(live) << live.error().message;
  live = fail(Code::Internal, "the daemon has ended");
  host_.end_daemon();
  auto again = builder_->adopt(made);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(host_.slots(), std::set<unsigned>{1});
  EXPECT_EQ(host_.ports().size(), 2U);
  builder_->teardown().end(made, std::move(*again));
  EXPECT_EQ(builder_->adopt(made).error().code, Code::NotFound) << "its process has ended";
}

}  // namespace
}  // namespace osb::sandboxd
