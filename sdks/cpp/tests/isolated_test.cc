#include "fixture.h"

namespace opensandbox {
namespace {

// A sandbox with isolated sessions, gone afterwards.
class SdkIsolatedSessions : public testing::Test {
 protected:
  void SetUp() override {
    client_.emplace(must(Client::open(test_config())));
    sandbox_.emplace(must(
        Sandbox::create(*client_, {.image = test_image(), .extensions = {{"bootstrap.execd.isolation", "enable"}}})));
  }
  void TearDown() override {
    if (sandbox_) (void)sandbox_->kill();
  }
  Sandbox& sandbox() { return *sandbox_; }
  IsolatedSessions sessions() { return sandbox_->isolated(); }
  std::string make(IsolatedSessionOptions options = {}) {
    if (!options.workspace) options.workspace = IsolatedMount{.path = "/workspace", .mode = "overlay"};
    return must(sessions().create(options)).id;
  }

 private:
  std::optional<Client> client_;
  std::optional<Sandbox> sandbox_;
};

TEST_F(SdkIsolatedSessions, KeepTheirOwnFilesAndVariables) {
  const auto can = must(sessions().capabilities());
  EXPECT_TRUE(can.available) << can.message;
  EXPECT_EQ(can.seccomp.state, "active");

  const std::string one = make(), two = make();
  EXPECT_EQ(must(sessions().run(one, "echo one > file; export KEPT=yes; exit 3")).exit_code, 3);
  must(sessions().run(two, "echo two > file"));
  const auto again = must(sessions().run(one, "cat file; echo $KEPT $GIVEN", {.envs = {{"GIVEN", "a b"}}}));
  EXPECT_EQ(again.stdout_lines, (std::vector<std::string>{"one", "yes a b"}));
  EXPECT_EQ(must(sessions().run(two, "cat file; echo $KEPT.")).stdout_lines, (std::vector<std::string>{"two", "."}));
  EXPECT_EQ(must(sandbox().commands().run("ls /workspace")).stdout_lines, std::vector<std::string>{});

  EXPECT_EQ(must(sessions().get(one)).status, "active");
  EXPECT_EQ(must(sessions().list()).size(), 2U);
  must(sessions().remove(one));
  EXPECT_EQ(must(sessions().list()).size(), 1U);
  const auto gone = sessions().run(one, "true");
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().status, 404);
}

TEST_F(SdkIsolatedSessions, RunInTheBackground) {
  const std::string session = make({.idle_timeout = std::chrono::seconds(0)});
  const auto run = must(sessions().run_background(session, "mkfifo go; echo one; cat < go; exit 4"));
  EXPECT_TRUE(run.running);
  EXPECT_TRUE(must(sessions().run_status(session, run.id)).running);
  // The writer waits for the reader, and with it for the pipe.
  must(sessions().run(session, "until test -p go; do sleep 0.02; done; echo two > go"));
  IsolatedRun end;
  do end = must(sessions().run_status(session, run.id));
  while (end.running);
  EXPECT_EQ(end.exit_code, 4);
  EXPECT_TRUE(end.finished_at);
  const auto logs = must(sessions().run_logs(session, run.id));
  EXPECT_EQ(logs.text, "one\ntwo\n");
  EXPECT_EQ(must(sessions().run_logs(session, run.id, logs.cursor)).text, "");
}

TEST_F(SdkIsolatedSessions, CarryTheirChangesOver) {
  const std::string session = make();
  const auto files = sessions().files(session);
  must(files.write("/workspace/new", "content"));
  EXPECT_EQ(must(sessions().run(session, "cat new")).stdout_text(), "content\n");
  EXPECT_FALSE(sandbox().files().read("/workspace/new"));

  std::string layer;
  const auto bytes = must(sessions().diff(session, [&](std::string_view piece) -> Result<void> {
    layer += piece;
    return {};
  }));
  EXPECT_EQ(bytes, layer.size());
  EXPECT_TRUE(layer.starts_with("\x1f\x8b"));

  EXPECT_EQ(must(sessions().commit(session)).written, 1U);
  EXPECT_EQ(must(sandbox().files().read("/workspace/new")), "content");
  EXPECT_EQ(must(sessions().run(session, "cat new")).stdout_text(), "content\n");
}

TEST_F(SdkIsolatedSessions, RefuseSettingsThatMakeNoSense) {
  const auto nothing = sessions().create({});
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().kind, ErrorKind::InvalidArgument);
  const auto place = sessions().create({.workspace = IsolatedMount{.path = "/proc/x"}});
  ASSERT_FALSE(place);
  EXPECT_EQ(place.error().status, 400);
  const auto network = make({.share_net = false});
  EXPECT_EQ(must(sessions().run(network, "grep : /proc/net/dev | grep -v lo:")).stdout_lines,
            std::vector<std::string>{});
}

}  // namespace
}  // namespace opensandbox
