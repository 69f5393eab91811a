#include <algorithm>
#include <poll.h>
#include <thread>

#include "fixture.h"

namespace opensandbox {
namespace {

using Type = PtyFrame::Type;

// Reads until the output holds `wanted`; what came so far.
std::string read_until(PtyConnection& pty, const std::string& wanted) {
  std::string out;
  while (out.find(wanted) == std::string::npos) {
    const auto frame = must(pty.read(), wanted.c_str());
    if (frame->type == Type::Stdout || frame->type == Type::Replay) out += frame->data;
    if (frame->type == Type::Exit) break;
  }
  return out;
}

using SdkPty = SandboxTest;

TEST_F(SdkPty, IsATerminal) {
  const auto ptys = sandbox().ptys();
  const auto id = must(ptys.create({.cwd = "/tmp"}));
  auto pty = must(ptys.attach(id));
  EXPECT_EQ(must(pty.read())->type, Type::Connected);
  must(pty.resize(123, 45));
  must(pty.write("stty size; tty; pwd\n"));
  const std::string out = read_until(pty, "/tmp\r\n");
  EXPECT_NE(out.find("45 123"), std::string::npos) << out;
  EXPECT_NE(out.find("/dev/pts/"), std::string::npos) << out;
  must(pty.write("exit 7\n"));
  for (;;) {
    const auto frame = must(pty.read());
    if (frame->type != Type::Exit) continue;
    EXPECT_EQ(frame->exit_code, 7);
    break;
  }
  const auto over = pty.read();
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().kind, ErrorKind::Cancelled);
  must(ptys.remove(id));
}

TEST_F(SdkPty, GoesOnWhileDetachedAndReplays) {
  const auto ptys = sandbox().ptys();
  const auto id = must(ptys.create());
  std::uint64_t offset = 0;
  {
    auto pty = must(ptys.attach(id));
    must(pty.write("echo fir''st; mkfifo /tmp/f\n"));
    read_until(pty, "first\r\n");
    offset = pty.offset();
    must(pty.write("read x < /tmp/f; echo got $x\n"));
    read_until(pty, "$x\r\n");
    pty.detach();
    while (pty.read()) {
    }
  }
  EXPECT_TRUE(must(ptys.status(id)).running);
  must(sandbox().commands().run("echo it > /tmp/f"));
  auto pty = must(ptys.attach(id, {.since = offset}));
  const std::string rest = read_until(pty, "got it\r\n");
  EXPECT_EQ(rest.find("first\r\n"), std::string::npos) << rest;
  auto all = must(ptys.attach(id, {.takeover = true}));
  EXPECT_NE(read_until(all, "got it\r\n").find("first\r\n"), std::string::npos);
  for (;;) {
    const auto frame = pty.read();
    if (frame) continue;
    EXPECT_EQ(frame.error().code, "TAKEN_OVER");
    break;
  }
  must(ptys.remove(id));
}

TEST_F(SdkPty, PipesHaveAnInputThatIsCountedAndEnds) {
  const auto ptys = sandbox().ptys();
  const auto id = must(ptys.create({.command = "cat; exit 3"}));
  PtyAttachOptions counting;
  counting.mode = PtyAttachOptions::Mode::Pipes;
  counting.input_acks = true;
  auto pty = must(ptys.attach(id, counting));
  EXPECT_EQ(must(pty.read())->input_offset, 0u);
  must(pty.write("one\n"));
  must(pty.write("two"));
  must(pty.end_input());
  std::string out;
  std::uint64_t taken = 0;
  for (;;) {
    const auto frame = must(pty.read());
    if (frame->type == Type::Stdout) out += frame->data;
    if (frame->type == Type::Input) taken = frame->input_offset.value_or(0);
    if (frame->type != Type::Exit) continue;
    EXPECT_EQ(frame->exit_code, 3);
    break;
  }
  EXPECT_EQ(out, "one\ntwo");
  EXPECT_EQ(taken, 7u);
  // To look at what has ended is not to start it again.
  counting.start = false;
  auto again = must(ptys.attach(id, counting));
  EXPECT_EQ(must(again.read())->data, "one\ntwo");
  EXPECT_FALSE(must(ptys.status(id)).running);
  must(ptys.remove(id));
}

TEST_F(SdkPty, KeepsPipesApartByteForByte) {
  const auto ptys = sandbox().ptys();
  const auto id = must(ptys.create({.command = "printf 'a\\r\\n\\0b'; printf 'no end' >&2; exit 3"}));
  auto pty = must(ptys.attach(id, {.mode = PtyAttachOptions::Mode::Pipes}));
  std::string out, err;
  for (;;) {
    const auto frame = must(pty.read());
    if (frame->type == Type::Stdout) out += frame->data;
    if (frame->type == Type::Stderr) err += frame->data;
    if (frame->type != Type::Exit) continue;
    EXPECT_EQ(frame->exit_code, 3);
    break;
  }
  EXPECT_EQ(out, std::string("a\r\n\0b", 5));
  EXPECT_EQ(err, "no end");
}

TEST_F(SdkPty, SendsSignalsAndCanBePolled) {
  const auto ptys = sandbox().ptys();
  const auto id = must(ptys.create({.command = "trap 'echo caught; exit 0' TERM; echo ready; sleep 600 & wait"}));
  auto pty = must(ptys.attach(id));
  read_until(pty, "ready\r\n");
  EXPECT_FALSE(must(pty.read(std::chrono::milliseconds(1))));
  must(pty.signal("SIGTERM"));
  pollfd waiting{.fd = pty.poll_fd(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(::poll(&waiting, 1, 60'000), 1);
  EXPECT_NE(read_until(pty, "caught").find("caught"), std::string::npos);
}

TEST_F(SdkPty, HoldsALoudShellBackAndLosesNothing) {
  const auto ptys = sandbox().ptys();
  const auto id = must(ptys.create({.command = "seq 1 300000"}));
  auto pty = must(ptys.attach(id));
  std::string out;
  for (;;) {
    const auto frame = must(pty.read());
    if (frame->type == Type::Stdout || frame->type == Type::Replay) {
      EXPECT_EQ(frame->offset, out.size());
      out += frame->data;
    }
    if (frame->type == Type::Exit) break;
  }
  EXPECT_EQ(std::ranges::count(out, '\n'), 300000);
  EXPECT_TRUE(out.ends_with("299999\r\n300000\r\n"));
}

TEST_F(SdkPty, RefusesWithTheServersReason) {
  ConnectionConfig config = test_config();
  config.use_server_proxy = true;
  const auto gone = must(Sandbox::create(must(Client::open(config)), {.image = test_image()}));
  const auto ptys = gone.ptys();
  const auto id = must(ptys.create());
  must(gone.kill());
  const auto late = ptys.attach(id);
  ASSERT_FALSE(late);
  EXPECT_TRUE(late.error().not_found()) << late.error().to_string();
}

TEST_F(SdkPty, RefusesWithTheSandboxsReason) {
  const auto ptys = sandbox().ptys();
  const auto unknown = ptys.attach("no-such-terminal");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().status, 404);
  EXPECT_EQ(unknown.error().code, "CONTEXT_NOT_FOUND");
  const auto id = must(ptys.create());
  auto first = must(ptys.attach(id));
  EXPECT_EQ(must(first.read())->type, Type::Connected);
  const auto second = ptys.attach(id);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().status, 409);
  EXPECT_EQ(second.error().code, "ALREADY_CONNECTED");
  auto watcher = must(ptys.attach(id, {.read_only = true}));
  must(first.write("echo se''en\n"));
  read_until(watcher, "seen\r\n");
}

}  // namespace
}  // namespace opensandbox
