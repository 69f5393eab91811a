#include <filesystem>
#include <unistd.h>

#include "fixture.h"

// The server is reached through a proxy that cuts connections (tests/e2e/sdk_cpp/test_sdk_lost.py says where); these do
// not run with the others.
namespace opensandbox {
namespace {

using SdkLostConnections = SandboxTest;

TEST_F(SdkLostConnections, LoseNoEventAndDoubleNone) {
  std::uint64_t expected = 1, lines = 0;
  const auto run = must(sandbox().commands().run("seq 1 100000; exit 3", {.discard_output = true},
                                                 {.on_event = [&](const ExecutionEvent& event) {
                                                   EXPECT_NE(event.type, ExecutionEvent::Type::Gap);
                                                   EXPECT_EQ(event.seq, expected++);
                                                   if (event.type == ExecutionEvent::Type::Stdout) {
                                                     EXPECT_EQ(event.text, std::to_string(++lines));
                                                   }
                                                   return !testing::Test::HasFailure();
                                                 }}));
  EXPECT_EQ(lines, 100000u);
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_GT(run.reconnects, 0);
  EXPECT_LE(run.reconnects, std::atoi(std::getenv("SDK_TEST_CUTS")));
}

TEST_F(SdkLostConnections, AreAnErrorWhereTheCallerWantsThat) {
  const auto run = sandbox().commands().run("seq 1 100000", {.reconnect_for = std::chrono::milliseconds(0)});
  ASSERT_FALSE(run);
  EXPECT_EQ(run.error().kind, ErrorKind::Network);
  EXPECT_TRUE(must(sandbox().is_healthy()));
}

TEST_F(SdkLostConnections, OfATerminalLoseNoByte) {
  const auto ptys = sandbox().ptys();
  // Small enough for the sandbox's replay buffer.
  const auto id = must(ptys.create({.command = "seq 1 50000; read x"}));
  std::string out, expected;
  for (int i = 1; i <= 50000; ++i) expected += std::to_string(i) + "\r\n";
  int attempts = 0;
  while (out.size() < expected.size()) {
    ++attempts;
    auto pty = ptys.attach(id, {.since = out.size(), .takeover = true});
    if (!pty) {
      ASSERT_EQ(pty.error().kind, ErrorKind::Network) << pty.error().to_string();
      continue;
    }
    while (out.size() < expected.size()) {
      const auto frame = pty->read();
      if (!frame) {
        ASSERT_EQ(frame.error().kind, ErrorKind::Network) << frame.error().to_string();
        break;
      }
      if ((*frame)->type != PtyFrame::Type::Stdout && (*frame)->type != PtyFrame::Type::Replay) continue;
      ASSERT_EQ((*frame)->offset, out.size());
      out += (*frame)->data;
      ASSERT_EQ(pty->offset(), out.size());
    }
  }
  EXPECT_EQ(attempts, 4);
  EXPECT_TRUE(out == expected);
}

TEST_F(SdkLostConnections, NeverMakeAHalfFile) {
  const auto files = sandbox().files();
  const std::string bytes(5'000'000, 'x');
  must(files.write("/tmp/big", bytes));
  const std::string local = testing::TempDir() + "/sdk-half-" + std::to_string(::getpid());
  const auto broken = files.download("/tmp/big", local);
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().kind, ErrorKind::Network);
  EXPECT_FALSE(std::filesystem::exists(local));
  EXPECT_EQ(must(files.download("/tmp/big", local)), bytes.size());
  std::filesystem::remove(local);
}

}  // namespace
}  // namespace opensandbox
