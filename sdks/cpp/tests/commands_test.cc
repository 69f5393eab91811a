#include <thread>

#include "fixture.h"

namespace opensandbox {
namespace {

using SdkCommands = SandboxTest;

TEST_F(SdkCommands, GiveOutputAndExitCode) {
  const auto run = must(sandbox().commands().run("echo out; echo; echo err >&2; exit 3"));
  EXPECT_EQ(run.stdout_lines, (std::vector<std::string>{"out", ""}));
  EXPECT_EQ(run.stdout_text(), "out\n\n");
  EXPECT_EQ(run.stderr_text(), "err\n");
  EXPECT_EQ(run.exit_code, 3);
  ASSERT_TRUE(run.error);
  EXPECT_EQ(run.error->name, "CommandExecError");
  EXPECT_TRUE(run.complete);

  const auto good = must(sandbox().commands().run("true"));
  EXPECT_EQ(good.exit_code, 0);
  EXPECT_TRUE(good.execution_time);
}

TEST_F(SdkCommands, TakeArgumentsEnvironmentAndDirectory) {
  const auto run = must(sandbox().commands().run_program({"printf", "%s\n", "a b", "$HOME"}));
  EXPECT_EQ(run.stdout_lines, (std::vector<std::string>{"a b", "$HOME"}));
  const auto with = must(sandbox().commands().run("echo $A; pwd", {.cwd = "/tmp", .envs = {{"A", "1 2"}}}));
  EXPECT_EQ(with.stdout_lines, (std::vector<std::string>{"1 2", "/tmp"}));
}

TEST_F(SdkCommands, FindVariablesThatWereSetForAll) {
  for (const std::string value : {"$HOME \\n \"x\"\n'", "$HOME \\n \"x\"\n", "it's \"two\"\n\\lines\\n\t"}) {
    must(sandbox().commands().set_env("FOR_ALL", value));
    EXPECT_EQ(must(sandbox().commands().run("printf '%s.' \"$FOR_ALL\"")).stdout_text(), value + ".\n");
  }
  EXPECT_FALSE(sandbox().commands().set_env("1A", "x"));
  EXPECT_FALSE(sandbox().commands().set_env("A", std::string(1, '\0')));
}

TEST_F(SdkCommands, CallHandlersInOrderOnTheCallingThread) {
  const auto here = std::this_thread::get_id();
  std::vector<std::string> heard;
  ExecutionHandlers handlers{.on_init = [&](const std::string& id) { heard.push_back(id.empty() ? "no id" : "init"); },
                             .on_stdout =
                                 [&](const std::string& line) {
                                   EXPECT_EQ(std::this_thread::get_id(), here);
                                   heard.push_back(line);
                                   // The same client may be used meanwhile.
                                   EXPECT_TRUE(sandbox().is_healthy().value_or(false));
                                 },
                             .on_complete = [&](std::chrono::milliseconds) { heard.push_back("complete"); }};
  const auto run = must(sandbox().commands().run("echo a; echo b", {.discard_output = true}, handlers));
  EXPECT_EQ(heard, (std::vector<std::string>{"init", "a", "b", "complete"}));
  EXPECT_TRUE(run.stdout_lines.empty());
}

TEST_F(SdkCommands, StopListeningWhenTheHandlerAsks) {
  std::string id;
  const auto run = sandbox().commands().run("echo first; sleep 600", {}, {.on_event = [&](const ExecutionEvent& event) {
                                              if (event.type == ExecutionEvent::Type::Init) id = event.text;
                                              return event.type != ExecutionEvent::Type::Stdout;
                                            }});
  ASSERT_FALSE(run);
  EXPECT_EQ(run.error().kind, ErrorKind::Cancelled);
  EXPECT_TRUE(must(sandbox().commands().status(id)).running);
  must(sandbox().commands().interrupt(id));
  const auto end = must(sandbox().commands().follow(id, 0));
  EXPECT_EQ(end.stdout_lines, std::vector<std::string>{"first"});
  EXPECT_NE(end.exit_code, 0);
  EXPECT_FALSE(must(sandbox().commands().status(id)).running);
}

TEST_F(SdkCommands, PassTheCallersExceptionThrough) {
  struct Mine {};
  EXPECT_THROW((void)sandbox().commands().run("echo x", {}, {.on_stdout = [](const std::string&) { throw Mine(); }}),
               Mine);
  EXPECT_TRUE(sandbox().is_healthy().value_or(false));
}

TEST_F(SdkCommands, RunInTheBackground) {
  must(sandbox().commands().run("mkfifo /tmp/go"));
  const auto run = must(sandbox().commands().run("echo one; read -r x < /tmp/go; echo $x", {.background = true}));
  EXPECT_FALSE(run.exit_code);
  ASSERT_FALSE(run.id.empty());
  EXPECT_TRUE(must(sandbox().commands().status(run.id)).running);
  must(sandbox().commands().run("echo two > /tmp/go"));
  // The end is an event too.
  const auto all = must(sandbox().commands().follow(run.id, 0));
  EXPECT_TRUE(all.complete);
  const auto status = must(sandbox().commands().status(run.id));
  EXPECT_FALSE(status.running);
  const auto logs = must(sandbox().commands().logs(run.id));
  EXPECT_EQ(logs.text, "one\ntwo\n");
  const auto rest = must(sandbox().commands().logs(run.id, logs.cursor));
  EXPECT_EQ(rest.text, "");
}

TEST_F(SdkCommands, NumberManyEventsWithoutHoles) {
  std::uint64_t expected = 1, lines = 0;
  const auto run = must(
      sandbox().commands().run("seq 1 100000", {.discard_output = true}, {.on_event = [&](const ExecutionEvent& event) {
                                 EXPECT_EQ(event.seq, expected++);
                                 if (event.type == ExecutionEvent::Type::Stdout) {
                                   EXPECT_EQ(event.text, std::to_string(++lines));
                                 }
                                 return true;
                               }}));
  EXPECT_EQ(lines, 100000u);
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.reconnects, 0);
}

TEST_F(SdkCommands, RunSideBySideFromManyThreads) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([this, i] {
      for (int j = 0; j < 5; ++j) {
        const std::string text = std::to_string(i) + '.' + std::to_string(j);
        std::string heard;
        const auto run =
            sandbox().commands().run("echo " + text, {}, {.on_stdout = [&](const std::string& line) { heard = line; }});
        EXPECT_TRUE(run && run->stdout_lines == std::vector<std::string>{text}) << text;
        EXPECT_EQ(heard, text);
        EXPECT_TRUE(Sandbox::attach(client(), sandbox().id()).is_healthy().value_or(false));
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST_F(SdkCommands, EndWhenTheirTimeIsUp) {
  const auto run = must(sandbox().commands().run("sleep 600", {.timeout = std::chrono::milliseconds(50)}));
  EXPECT_TRUE(run.error);
  EXPECT_NE(run.exit_code, 0);
}

TEST_F(SdkCommands, SayWhatIsWrong) {
  const auto none = sandbox().commands().run("");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().kind, ErrorKind::InvalidArgument);
  const auto nowhere = sandbox().commands().run("true", {.cwd = "/no/such/directory"});
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().kind, ErrorKind::Api);
  EXPECT_EQ(nowhere.error().status, 400);
  EXPECT_EQ(nowhere.error().code, "INVALID_REQUEST_BODY");
  EXPECT_FALSE(sandbox().commands().status("no-such-command"));
}

using SdkSessions = SandboxTest;

TEST_F(SdkSessions, KeepTheirState) {
  const auto id = must(sandbox().sessions().create("/tmp"));
  EXPECT_EQ(must(sandbox().sessions().run(id, "export A=7; cd /; pwd")).stdout_text(), "/\n");
  const auto run = must(sandbox().sessions().run(id, "echo $A; pwd; false"));
  EXPECT_EQ(run.stdout_text(), "7\n/\n");
  EXPECT_EQ(run.exit_code, 1);
  must(sandbox().sessions().remove(id));
  const auto gone = sandbox().sessions().remove(id);
  ASSERT_FALSE(gone);
  EXPECT_TRUE(gone.error().not_found());
}

}  // namespace
}  // namespace opensandbox
