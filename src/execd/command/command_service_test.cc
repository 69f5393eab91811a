#include "execd/command/command_service.h"

#include <fstream>
#include <functional>
#include <signal.h>
#include <string>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <vector>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/json.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "execd/run/event_stream.h"
#include "support/await.h"
#include "support/temp_dir.h"
#include "sys/pidfd.h"

namespace osb::execd {
namespace {

using ::testing::ElementsAre;
namespace json = boost::json;

// A client in memory: keeps what it got, can stop taking bytes, can vanish after so many of them.
class MemoryWriter final : public http::BodyWriter {
 public:
  explicit MemoryWriter(net::any_io_executor executor) : flow_(executor) { flow_.set(); }

  net::awaitable<Result<void>> write(std::span<const std::string_view> pieces) override {
    co_await flow_.wait();
    for (const std::string_view piece : pieces) {
      if (got.size() + piece.size() > vanish_after) {
        got += piece.substr(0, vanish_after - got.size());
        co_return fail(Code::Cancelled, "the client left");
      }
      got += piece;
    }
    co_return Result<void>();
  }
  net::awaitable<Result<void>> flush() override { co_return Result<void>(); }
  net::awaitable<void> peer_closed() override { co_return; }

  void stall() { flow_.clear(); }
  void resume() { flow_.set(); }

  std::string got;
  std::size_t vanish_after = std::string::npos;

 private:
  Event flow_;
};

std::vector<json::object> parse_events(std::string_view text) {
  std::vector<json::object> out;
  for (std::size_t end; (end = text.find("\n\n")) != std::string_view::npos; text.remove_prefix(end + 2)) {
    out.push_back(json::parse(text.substr(0, end)).as_object());
  }
  return out;
}

std::string_view type_of(const json::object& event) { return event.at("type").as_string(); }

// "stdout:hello", "error:3", "init", "execution_complete"; pings are left out.
std::vector<std::string> summary(std::string_view text) {
  std::vector<std::string> out;
  for (const json::object& event : parse_events(text)) {
    const std::string type(type_of(event));
    if (type == "ping") continue;
    if (type == "stdout" || type == "stderr") {
      out.push_back(type + ":" + std::string(event.at("text").as_string()));
    } else if (type == "error") {
      out.push_back("error:" + std::string(event.at("error").at("evalue").as_string()));
    } else {
      out.push_back(type);
    }
  }
  return out;
}

class CommandServiceTest : public ::testing::Test {
 protected:
  CommandServiceTest() {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    ::signal(SIGPIPE, SIG_IGN);
    options.temp_directory = dir.path().string();
    make({});
  }

  void make(Environment extra) {
    Environment env = {{"PATH", "/usr/local/bin:/usr/bin:/bin"}, {"DIR", dir.path().string()}};
    for (auto& [name, value] : extra) env.insert_or_assign(name, value);
    service.reset();
    environment = std::make_unique<CommandEnvironment>(env, "/");
    service = std::make_unique<CommandService>(host, *environment, options);
  }

  std::shared_ptr<Command> start(std::string command, std::function<void(api::RunCommand&)> change = {}) {
    api::RunCommand request;
    request.command = std::move(command);
    if (change) change(request);
    auto started = service->start(request);
    EXPECT_TRUE(started) << started.error().message;
    return started.value_or(nullptr);
  }

  void run_until(const std::function<bool()>& condition) {
    io.restart();
    while (!condition()) io.run_one();
  }

  // All that a client gets that stays to the end.
  std::string stream(const std::shared_ptr<Command>& command, std::uint64_t after = 0) {
    MemoryWriter writer(io.get_executor());
    EXPECT_TRUE(testing::await(io, stream_events(command->events, after, writer)));
    return writer.got;
  }
  std::vector<std::string> run(std::string command, std::function<void(api::RunCommand&)> change = {}) {
    return summary(stream(start(std::move(command), std::move(change))));
  }

  std::string read_output(const Command& command, std::uint64_t from = 0) {
    std::string out;
    for (const auto& part : command.output->slice(from)) {
      std::string bytes(part.length, '\0');
      EXPECT_EQ(::pread(part.file->get(), bytes.data(), bytes.size(), static_cast<off_t>(part.offset)),
                static_cast<ssize_t>(bytes.size()));
      out += bytes;
    }
    return out;
  }

  testing::TempDir dir;
  net::io_context io{1};
  BlockingPool pool{2};
  ChildReaper reaper{io.get_executor()};
  FakeClock clock;
  RunHost host{io.get_executor(), reaper, pool, {}, {}, clock};
  CommandOptions options;
  std::unique_ptr<CommandEnvironment> environment;
  std::unique_ptr<CommandService> service;
};

TEST_F(CommandServiceTest, EventsOfASimpleCommand) {
  const auto command = start("echo hello");
  EXPECT_TRUE(command->running());
  const auto events = parse_events(stream(command));
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(type_of(events[0]), "init");
  EXPECT_EQ(events[0].at("text").as_string(), command->id);
  EXPECT_EQ(command->id.size(), 32U);
  EXPECT_EQ(events[1].at("text").as_string(), "hello");
  EXPECT_EQ(type_of(events[2]), "execution_complete");
  for (std::size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].at("seq").as_int64(), static_cast<std::int64_t>(i + 1));
    EXPECT_GT(events[i].at("timestamp").as_int64(), 1'600'000'000'000);
  }
  EXPECT_FALSE(command->running());
  EXPECT_EQ(command->outcome->exit_code, 0);
  EXPECT_EQ(service->find(command->id), command) << "finished commands can be asked about";
}

TEST_F(CommandServiceTest, OutputAndEndings) {
  struct {
    const char* why;
    const char* command;
    std::vector<std::string> want;
  } rows[] = {
      {"silent", "true", {"init", "execution_complete"}},
      {"exit code", "exit 3", {"init", "error:3"}},
      {"signal", "kill -9 $$", {"init", "error:-1"}},
      {"no such program", "nonexistent-program 2>/dev/null", {"init", "error:127"}},
      {"empty lines", "printf 'a\\n\\nb'", {"init", "stdout:a", "stdout:\n", "stdout:b", "execution_complete"}},
      {"stderr", "echo oops >&2; exit 1", {"init", "stderr:oops", "error:1"}},
      {"stdin is empty", "cat; echo end", {"init", "stdout:end", "execution_complete"}},
      {"binary", "printf '\\377\\0\\n'", {"init", std::string("stdout:\xEF\xBF\xBD\0", 11), "execution_complete"}},
      {"a new process group",
       "[ $(ps -o pgid= -p $$) = $$ ] && echo own",
       {"init", "stdout:own", "execution_complete"}},
  };
  for (const auto& row : rows) EXPECT_EQ(run(row.command), row.want) << row.why;
}

TEST_F(CommandServiceTest, OutcomesAreWordedLikeTheContractSays) {
  EXPECT_EQ(outcome_of({0, 0}).error, "");
  EXPECT_EQ(outcome_of({3, 0}).error, "exit status 3");
  EXPECT_EQ(outcome_of({0, SIGKILL}).error, "signal: killed");
  EXPECT_EQ(outcome_of({0, SIGTERM}).error, "signal: terminated");
  EXPECT_EQ(outcome_of({0, SIGSEGV}).error, "signal: segmentation fault");
  EXPECT_EQ(outcome_of({0, SIGTERM}).exit_code, -1);
}

TEST_F(CommandServiceTest, RequestOptionsReachTheProcess) {
  EXPECT_THAT(run("echo $X; pwd; echo \"$EXECD_ACCESS_TOKEN\"",
                  [&](auto& request) {
                    request.envs = {{"X", "1"}, {"WHERE", dir.path().string()}};
                    request.cwd = "$WHERE";
                  }),
              ElementsAre("init", "stdout:1", "stdout:" + dir.path().string(), "stdout:\n", "execution_complete"));
  api::RunCommand request;
  request.command = "true";
  request.cwd = "/nonexistent";
  EXPECT_EQ(service->start(request).error().code, Code::InvalidRequest);
  request.cwd = "";
  request.user = "no-such-user";
  EXPECT_EQ(service->start(request).error().code, Code::InvalidRequest);
  EXPECT_EQ(service->known(), 1U);
}

TEST_F(CommandServiceTest, AnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  const auto as = [](auto change) { return [change](api::RunCommand& request) { change(request); }; };
  EXPECT_THAT(run("id -u; id -g", as([](auto& r) { r.uid = 65534; })),
              ElementsAre("init", "stdout:65534", "stdout:65534", "execution_complete"))
      << "the primary group comes from /etc/passwd";
  EXPECT_THAT(run("id -u; id -G", as([](auto& r) { r.uid = 12345, r.gid = 54321; })),
              ElementsAre("init", "stdout:12345", "stdout:54321", "execution_complete"));
  EXPECT_THAT(run("id -u; id -G", as([](auto& r) { r.uid = 12345; })),
              ElementsAre("init", "stdout:12345", "stdout:0", "execution_complete"));
  EXPECT_THAT(run("id -un", as([](auto& r) { r.user = "nobody"; })),
              ElementsAre("init", "stdout:nobody", "execution_complete"));
}

TEST_F(CommandServiceTest, AShellThatCannotStartIsToldInTheStream) {
  make({{"PATH", "/nonexistent"}});
  const auto foreground = start("true");
  const auto events = parse_events(stream(foreground));
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(type_of(events[0]), "init");
  EXPECT_EQ(events[1].at("error").at("ename").as_string(), "CommandExecError");
  EXPECT_EQ(service->find(foreground->id), nullptr);

  const auto background = start("true", [](auto& request) { request.background = true; });
  EXPECT_EQ(service->find(background->id), background);
  EXPECT_EQ(background->outcome->exit_code, 255);
  EXPECT_TRUE(background->events->closed());
}

TEST_F(CommandServiceTest, AProgramRunsWithoutAShell) {
  const auto with = [](std::vector<std::string> argv) {
    return [argv = std::move(argv)](api::RunCommand& request) { request.argv = argv; };
  };
  EXPECT_THAT(run("", with({"printf", "%s|", "a b", "$HOME", "*", "", "'q'"})),
              ElementsAre("init", "stdout:a b|$HOME|*||'q'|", "execution_complete"));
  EXPECT_THAT(run("", with({"sh", "-c", "exit 7"})), ElementsAre("init", "error:7"));
  EXPECT_EQ(start("", with({"echo", "a b", "it's", "", "-x=1"}))->content, R"(["echo","a b","it's","","-x=1"])");

  std::ofstream(dir / "show") << "#!/bin/sh\necho \"$A $PWD\"\n";
  std::filesystem::permissions(dir / "show", std::filesystem::perms(0755));
  const std::string here = dir.path().string();
  EXPECT_THAT(run("",
                  [&](api::RunCommand& request) {
                    request.argv = {"./show"};
                    request.cwd = here;
                    request.envs = {{"A", "1"}};
                  }),
              ElementsAre("init", "stdout:1 " + here, "execution_complete"));
  EXPECT_THAT(run("",
                  [&](api::RunCommand& request) {
                    request.argv = {"show"};
                    request.envs = {{"A", "2"}, {"PATH", here + ":/bin"}};
                  }),
              ElementsAre("init", "stdout:2 /", "execution_complete"));
}

TEST_F(CommandServiceTest, AProgramThatCannotStartIsToldInTheStream) {
  std::ofstream(dir / "plain") << "no program";
  for (const std::string& program :
       {std::string("no-such-program-here"), std::string("/no/such"), std::string("/usr"), (dir / "plain").string()}) {
    const auto command = start("", [&](api::RunCommand& request) { request.argv = {program}; });
    const auto events = parse_events(stream(command));
    ASSERT_EQ(events.size(), 2U) << program;
    EXPECT_EQ(type_of(events[0]), "init");
    EXPECT_EQ(type_of(events[1]), "error");
    EXPECT_THAT(std::string(events[1].at("error").at("evalue").as_string()), ::testing::HasSubstr(program));
    EXPECT_EQ(service->find(command->id), nullptr) << "no record of what never ran";
  }
  const auto background = start("", [](api::RunCommand& request) {
    request.argv = {"no-such-program-here"};
    request.background = true;
  });
  EXPECT_EQ(background->outcome->exit_code, 255);
  EXPECT_EQ(service->find(background->id), background);
}

TEST_F(CommandServiceTest, AForegroundCommandEndsWithItsShellWhilePipesAreDrained) {
  ASSERT_EQ(::mkfifo((dir / "go").c_str(), 0600), 0);
  // More than a pipe holds, written after the shell has ended: without a reader it would block or get SIGPIPE.
  const auto command = start(
      "( read -r _ < $DIR/go; head -c 3000000 /dev/zero && head -c 3000000 /dev/zero >&2 && echo ok > $DIR/done ) &"
      " echo started");
  EXPECT_THAT(summary(stream(command)), ElementsAre("init", "stdout:started", "execution_complete"));
  EXPECT_EQ(host.draining(), 2U);
  std::ofstream(dir / "go") << "\n";
  run_until([&] { return host.draining() == 0; });
  std::string text;
  std::ifstream(dir / "done") >> text;
  EXPECT_EQ(text, "ok");
}

TEST_F(CommandServiceTest, ADescendantThatWritesForEverDoesNotHoldTheStream) {
  const auto command = start("yes & echo $! > $DIR/pid");
  const auto events = summary(stream(command));
  EXPECT_EQ(events.back(), "execution_complete");
  pid_t pid = 0;
  std::ifstream(dir / "pid") >> pid;
  ASSERT_GT(pid, 1);
  EXPECT_EQ(::kill(pid, SIGKILL), 0) << "it goes on";
  run_until([&] { return host.draining() == 0; });
}

TEST_F(CommandServiceTest, ATimeoutKillsTheWholeTree) {
  // A slow machine may need more than one attempt until the shell has said both numbers before its time is over.
  std::vector<std::string> events;
  std::shared_ptr<Command> command;
  for (std::chrono::milliseconds timeout(300); events.size() < 4 && timeout < std::chrono::seconds(60); timeout *= 2) {
    command = start("setsid sleep 1000 & echo $!; (trap '' TERM; sleep 1000) & echo $!; sleep 1000",
                    [timeout](auto& request) { request.timeout = timeout; });
    events = summary(stream(command));
    EXPECT_EQ(events.back(), "error:-1");
  }
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(events.back(), "error:-1");
  EXPECT_EQ(command->outcome->error, "signal: killed");
  for (int i = 1; i <= 2; ++i) {
    const pid_t pid = std::stoi(events[i].substr(7));
    if (const auto handle = sys::open_pidfd(pid)) {
      EXPECT_TRUE(sys::wait_ended(handle->get(), std::chrono::seconds(10))) << pid;
    }
  }
}

TEST_F(CommandServiceTest, InterruptTerminatesPolitelyAndThenKills) {
  options.interrupt_grace = std::chrono::minutes(10);
  make({});
  const auto polite = start("trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 1000 & wait; done");
  run_until([&] { return polite->events->last_seq() >= 2; });
  EXPECT_TRUE(testing::await(io, service->interrupt(polite->id))->has_value());
  EXPECT_THAT(summary(stream(polite)), ElementsAre("init", "stdout:ready", "stdout:bye", "error:7"));

  options.interrupt_grace = std::chrono::milliseconds(100);
  make({});
  const auto stubborn = start("trap '' TERM; echo ready; sleep 1000; sleep 1000");
  run_until([&] { return stubborn->events->last_seq() >= 2; });
  EXPECT_TRUE(testing::await(io, service->interrupt(stubborn->id))->has_value());
  EXPECT_EQ(summary(stream(stubborn)).back(), "error:-1");

  const auto again = testing::await(io, service->interrupt(stubborn->id));
  ASSERT_TRUE(again);
  EXPECT_FALSE(again->has_value()) << "finished already";
  EXPECT_FALSE(testing::await(io, service->interrupt("unknown")));
}

TEST_F(CommandServiceTest, InterruptReachesDescendantsThatLeftTheGroup) {
  const auto command = start("setsid sleep 1000 & echo $!; wait");
  run_until([&] { return command->events->last_seq() >= 2; });
  const auto events = parse_events(stream(start("true")));
  EXPECT_TRUE(testing::await(io, service->interrupt(command->id))->has_value());
  const pid_t pid = std::stoi(summary(stream(command))[1].substr(7));
  const auto left = sys::read_process(pid);
  EXPECT_TRUE(!left || !left->alive);
}

TEST_F(CommandServiceTest, BackgroundOutputIsALogInWriteOrder) {
  const auto command =
      start("echo one; echo two >&2; echo three; exit 4", [](auto& request) { request.background = true; });
  EXPECT_TRUE(command->running());
  run_until([&] { return !command->running(); });
  EXPECT_EQ(read_output(*command), "one\ntwo\nthree\n");
  EXPECT_EQ(read_output(*command, 4), "two\nthree\n");
  EXPECT_EQ(command->outcome->exit_code, 4);
  EXPECT_THAT(summary(stream(command, 1)), ElementsAre("stdout:one", "stdout:two", "stdout:three", "error:4"));
}

TEST_F(CommandServiceTest, ASlowReaderHoldsTheCommandBack) {
  const auto command = start("yes 'a line of text that is neither long nor short' | head -n 400000; echo end");
  MemoryWriter writer(io.get_executor());
  writer.stall();
  bool done = false;
  net::co_spawn(io, stream_events(command->events, 0, writer), [&](std::exception_ptr, Result<void> sent) {
    EXPECT_TRUE(sent);
    done = true;
  });
  run_until([&] { return command->events->congested(); });
  for (int i = 0; i < 100; ++i) io.poll();
  EXPECT_TRUE(command->running());
  EXPECT_LT(command->events->memory_bytes(), 8U << 20);
  EXPECT_EQ(command->events->file_bytes(), 0U) << "what the client will read stays in memory";
  writer.resume();
  run_until([&] { return done; });
  const auto events = parse_events(writer.got);
  ASSERT_EQ(events.size(), 400'003U);
  EXPECT_EQ(events.back().at("seq").as_int64(), 400'003);
  EXPECT_EQ(type_of(events.back()), "execution_complete");
}

TEST_F(CommandServiceTest, AClientThatVanishesCanComeBackWithoutLossOrDuplicate) {
  const auto command = start("for i in $(seq 1 2000); do echo line $i; done");
  std::string all;
  std::uint64_t after = 0;
  std::size_t connections = 0;
  for (bool ended = false; !ended; ++connections) {
    MemoryWriter writer(io.get_executor());
    writer.vanish_after = 7'777;  // in the middle of some event
    ended = testing::await(io, stream_events(command->events, after, writer)).has_value();
    // Only whole events count; a half event is asked for again.
    const std::size_t whole = writer.got.rfind("\n\n");
    ASSERT_NE(whole, std::string::npos);
    all += writer.got.substr(0, whole + 2);
    after = static_cast<std::uint64_t>(parse_events(all).back().at("seq").as_int64());
  }
  EXPECT_GT(connections, 10U);
  const auto events = parse_events(all);
  ASSERT_EQ(events.size(), 2002U);
  for (std::size_t i = 0; i < events.size(); ++i) EXPECT_EQ(events[i].at("seq").as_int64(), std::int64_t(i + 1));
  for (std::size_t i = 1; i <= 2000; ++i) EXPECT_EQ(events[i].at("text").as_string(), "line " + std::to_string(i));
}

TEST_F(CommandServiceTest, WithoutAReaderTheCommandGoesOnAndOldEventsSpill) {
  options.ring_bytes = 64 * 1024;
  options.spill_bytes = 512 * 1024;
  make({});
  const auto command = start("seq 1 100000");
  run_until([&] { return !command->running(); });
  EXPECT_EQ(command->outcome->exit_code, 0);
  const auto events = parse_events(stream(command));
  EXPECT_EQ(type_of(events[0]), "gap");
  EXPECT_EQ(events[0].at("from").as_int64(), 1);
  EXPECT_FALSE(events[0].contains("text")) << "the Go client would print it";
  for (std::size_t i = 1; i < events.size(); ++i) {
    EXPECT_EQ(events[i].at("seq").as_int64(), events[i - 1].at("seq").as_int64() + 1);
  }
  EXPECT_EQ(type_of(events.back()), "execution_complete");
}

TEST_F(CommandServiceTest, GiantOutputWithoutALineEndComesInPieces) {
  const auto command = start("head -c 20000000 /dev/zero | tr '\\0' x");
  std::size_t total = 0;
  for (const auto& event : parse_events(stream(command))) {
    if (type_of(event) == "stdout") total += event.at("text").as_string().size();
  }
  EXPECT_EQ(total, 20'000'000U);
}

TEST_F(CommandServiceTest, FinishedCommandsAreForgottenByNumberAndAge) {
  options.finished = 20;
  options.finished_with_output = 5;
  make({});
  std::vector<std::shared_ptr<Command>> commands;
  for (int i = 0; i < 30; ++i) {
    commands.push_back(start("echo output"));
    run_until([&] { return !commands.back()->running(); });
  }
  EXPECT_EQ(service->known(), 20U);
  EXPECT_EQ(service->running(), 0U);
  EXPECT_EQ(service->find(commands[9]->id), nullptr);
  EXPECT_EQ(service->find(commands[10]->id), commands[10]);
  EXPECT_THAT(summary(stream(commands[10])), ElementsAre("gap", "execution_complete"));
  EXPECT_THAT(summary(stream(commands[29])), ElementsAre("init", "stdout:output", "execution_complete"));
  clock.advance(options.retention - std::chrono::nanoseconds(1));
  service->expire();
  EXPECT_EQ(service->known(), 20U);
  clock.advance(std::chrono::nanoseconds(1));
  service->expire();
  EXPECT_EQ(service->known(), 0U);
}

TEST_F(CommandServiceTest, FinishedCommandsAreForgottenWhenTheirTimeIsUp) {
  options.retention = std::chrono::milliseconds(1);
  make({});
  const auto command = start("true");
  run_until([&] { return !command->running(); });
  clock.advance(options.retention);
  run_until([&] { return service->known() == 0; });
}

TEST_F(CommandServiceTest, OutputThatIsKeptTogetherIsBounded) {
  options.finished_memory = 300'000;
  make({});
  std::shared_ptr<Command> first;
  for (int i = 0; i < 10; ++i) {
    const auto command = start("head -c 60000 /dev/zero | tr '\\0' x");
    run_until([&] { return !command->running(); });
    if (!first) first = command;
  }
  EXPECT_EQ(service->known(), 10U);
  EXPECT_LT(first->events->memory_bytes(), 1000U);
}

TEST_F(CommandServiceTest, OutputThatIsTooMuchByItselfIsDroppedAndItsStreamEnds) {
  options.finished_memory = 10'000;
  make({});
  const auto command = start("head -c 60000 /dev/zero | tr '\\0' x");
  run_until([&] { return !command->running(); });
  ASSERT_TRUE(command->events->closed());
  EXPECT_THAT(summary(stream(command)), ElementsAre("gap", "execution_complete"));
}

TEST_F(CommandServiceTest, ShutdownEndsEverythingAndTellsTheStreams) {
  const auto one = start("sleep 1000");
  const auto two = start("trap '' TERM; echo ready; sleep 1000 & wait; sleep 1000");
  run_until([&] { return two->events->last_seq() >= 2; });
  testing::await(io, service->shutdown(std::chrono::milliseconds(100)));
  EXPECT_EQ(summary(stream(one)).back(), "error:-1");
  EXPECT_EQ(summary(stream(two)).back(), "error:-1");
  api::RunCommand request;
  request.command = "true";
  EXPECT_EQ(service->start(request).error().code, Code::Unavailable);
}

TEST_F(CommandServiceTest, IdleStreamsCarryPings) {
  ASSERT_EQ(::mkfifo((dir / "never").c_str(), 0600), 0);
  const std::string got = stream(start("exec 3<>$DIR/never; read -t 3.2 -u 3 x; echo end"));
  std::vector<std::string> types;
  for (const auto& event : parse_events(got)) types.emplace_back(type_of(event));
  EXPECT_THAT(types, ElementsAre("init", "ping", "stdout", "execution_complete"));
}

}  // namespace
}  // namespace osb::execd
