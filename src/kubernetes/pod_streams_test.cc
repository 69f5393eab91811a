#include "kubernetes/pod_streams.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kubernetes/api_status.h"
#include "kubernetes/testing/cluster_fixture.h"

namespace osb::kubernetes {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Peer = testing::ApiServer::ExecPeer;

class PodStreamsTest : public testing::ClusterFixture {
 protected:
  void SetUp() override {
    OSB_ONLY_IN_PROCESS();
    must(client->create(resources::kPods, ns, {{"metadata", {{"name", "p"}}}}));
  }
  Key pod() const { return {ns, "p"}; }
};

TEST_F(PodStreamsTest, ALogComesAsItIs) {
  server->logs[pod()] = "one\ntwo\n";
  auto body = must(pod_log(*client, pod(), {.container = "sandbox", .tail_lines = 10, .since_seconds = 60}));
  EXPECT_EQ(must(body->read_all(1000)), "one\ntwo\n");
  EXPECT_THAT(server->requests.back(), HasSubstr("/pods/p/log?container=sandbox&tailLines=10&sinceSeconds=60"));
  const auto missing = run(pod_log(*client, {ns, "q"}));
  ASSERT_FALSE(missing);
  EXPECT_TRUE(is_not_found(missing.error()));
}

TEST_F(PodStreamsTest, AFollowedLogBringsLinesBeforeItsEnd) {
  server->logs[pod()] = "first\n";
  server->follow_logs = true;
  auto body = must(pod_log(*client, pod(), {.follow = true}));
  EXPECT_EQ(std::string(must(body->read())), "first\n");
  server->end_watches();
  EXPECT_EQ(std::string(must(body->read())), "");
}

TEST_F(PodStreamsTest, ACommandHasOutputErrorsAndAnExitCode) {
  std::vector<std::string> seen;
  server->exec = [&](std::vector<std::string> command, Peer& peer) -> net::awaitable<int> {
    seen = std::move(command);
    co_await peer.write(1, "");  // as the real server opens its streams
    co_await peer.write(1, "out");
    co_await peer.write(2, "err");
    co_return 7;
  };
  const auto result = must(run_in_pod(*client, pod(), {.command = {"sh", "-c", "echo a&b"}, .container = "c"}, 30s));
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_EQ(result.out, "out");
  EXPECT_EQ(result.err, "err");
  EXPECT_THAT(seen, ElementsAre("sh", "-c", "echo a&b"));
  EXPECT_THAT(server->requests, Contains(HasSubstr("container=c&stdout=true&stderr=true")));
}

TEST_F(PodStreamsTest, InputReachesTheCommand) {
  server->exec = [&](std::vector<std::string>, Peer& peer) -> net::awaitable<int> {
    const auto line = co_await peer.read_stdin();
    co_await peer.write(1, "got " + line.value_or("nothing"));
    co_return 0;
  };
  const auto exec = must(PodExec::start(*client, pod(), {.command = {"cat"}, .with_stdin = true}));
  must(exec->resize(80, 24));
  must(exec->write_input("hello"));
  const auto output = must(exec->read());
  ASSERT_TRUE(output);
  EXPECT_EQ(output->data, "got hello");
  EXPECT_FALSE(must(exec->read()));
  EXPECT_EQ(exec->exit_code(), 0);
}

TEST_F(PodStreamsTest, ALongOutputIsCutAtItsLimit) {
  server->exec = [&](std::vector<std::string>, Peer& peer) -> net::awaitable<int> {
    for (int i = 0; i < 10; ++i) co_await peer.write(1, std::string(100, 'x'));
    co_return 0;
  };
  EXPECT_EQ(must(run_in_pod(*client, pod(), {.command = {"x"}}, 30s, 250)).out.size(), 250u);
}

TEST_F(PodStreamsTest, ARefusedCommandSaysWhy) {
  const auto refused = run(run_in_pod(*client, pod(), {.command = {"x"}}, 30s));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("this pod runs nothing"));
}

TEST(ExecStatusTest, TheLastMessageHasTheExitCodeOrTheReason) {
  EXPECT_EQ(parse_exec_status(R"({"status":"Success"})").value(), 0);
  EXPECT_EQ(parse_exec_status(R"({"status":"Failure","reason":"NonZeroExitCode","details":{"causes":[{"reason":"Other"},
      {"reason":"ExitCode","message":"137"}]}})")
                .value(),
            137);
  const auto missing =
      parse_exec_status(R"({"status":"Failure","reason":"InternalError","message":"no such file","code":500})");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().message, "exec: no such file");
  for (const char* bad : {"", "[]", R"({"status":"Failure","reason":"NonZeroExitCode","details":{"causes":[1]}})"}) {
    EXPECT_FALSE(parse_exec_status(bad)) << bad;
  }
}

}  // namespace
}  // namespace osb::kubernetes
