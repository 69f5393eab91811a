#include "execd/session/session_service.h"

#include <filesystem>
#include <fstream>
#include <signal.h>
#include <string>
#include <sys/stat.h>
#include <vector>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/json.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "async/signals.h"
#include "async/timer.h"
#include "base/id.h"
#include "support/await.h"
#include "support/temp_dir.h"

namespace osb::execd {
namespace {

using osb::testing::await;
using osb::testing::TempDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Events = std::vector<std::string>;
namespace json = boost::json;

// A client that keeps what it got and can hang up.
class Client final : public http::BodyWriter {
 public:
  explicit Client(const net::any_io_executor& executor) : changed_(executor), left_(executor), done_(executor) {}

  net::awaitable<Result<void>> write(std::span<const std::string_view> pieces) override {
    for (const std::string_view piece : pieces) got += piece;
    changed_.notify_all();
    co_return Result<void>();
  }
  net::awaitable<Result<void>> flush() override { co_return Result<void>(); }
  net::awaitable<void> peer_closed() override { co_await left_.wait(); }

  void leave() { left_.set(); }
  net::awaitable<void> until_got(std::string text) {
    co_await changed_.wait_until([&] { return got.contains(text); });
  }
  net::awaitable<void> until_done() { co_await done_.wait(); }
  void set_done() { done_.set(); }

  // "stdout:hello", "error:3", "init", "execution_complete"; pings are left out.
  Events events() const {
    Events out;
    std::string_view text = got;
    for (std::size_t end; (end = text.find("\n\n")) != std::string_view::npos; text.remove_prefix(end + 2)) {
      const json::object event = json::parse(text.substr(0, end)).as_object();
      const std::string type(event.at("type").as_string());
      if (type == "ping") continue;
      if (type == "stdout") {
        out.push_back("stdout:" + std::string(event.at("text").as_string()));
      } else if (type == "error") {
        out.push_back("error:" + std::string(event.at("error").at("evalue").as_string()));
      } else {
        out.push_back(type);
      }
    }
    return out;
  }

  std::string got;

 private:
  Notifier changed_;
  Event left_, done_;
};

class SessionServiceTest : public ::testing::Test {
 protected:
  explicit SessionServiceTest(const char* shell = "/bin/bash")
      : environment(Environment{{"PATH", path_with(shell)},
                                {"INITIAL", "from the daemon"},
                                {"dotted.name", "d"},
                                {"EXECD_ENVS", (temp.path() / "envs").string()}},
                    temp.path().string()) {
    ignore_sigpipe();
  }
  ~SessionServiceTest() override {
    await(io, service.shutdown());
    host.close();
    io.poll();
  }

  // A directory with one shell (as bash or as sh, by its name) and few other programs.
  std::string path_with(const std::string& shell) {
    const auto bin = temp.path() / "bin";
    std::filesystem::create_directory(bin);
    std::filesystem::create_symlink(shell, bin / (shell.ends_with("bash") ? "bash" : "sh"));
    for (const char* tool : {"sleep", "env", "cat", "ls", "rmdir", "false"}) {
      std::filesystem::create_symlink(std::filesystem::path("/usr/bin") / tool, bin / tool);
    }
    return bin.string();
  }

  std::string create(std::string cwd = "") {
    auto id = service.create({std::move(cwd)});
    EXPECT_TRUE(id) << id.error().message;
    return id.value_or("");
  }

  // Starts a run and returns its client at once.
  std::shared_ptr<Client> begin(const std::string& id, std::string command, std::chrono::milliseconds timeout = {},
                                std::string cwd = "") {
    auto client = std::make_shared<Client>(io.get_executor());
    const auto task = [](SessionService& sessions, std::shared_ptr<Session> session, api::RunInSession request,
                         std::shared_ptr<Client> to) -> net::awaitable<void> {
      co_await sessions.run(std::move(session), std::move(request), *to);
      to->set_done();
    };
    net::co_spawn(io, task(service, service.find(id), {std::move(command), std::move(cwd), timeout}, client),
                  net::detached);
    return client;
  }

  Events run(const std::string& id, std::string command, std::chrono::milliseconds timeout = {}, std::string cwd = "") {
    const auto client = begin(id, std::move(command), timeout, std::move(cwd));
    await(io, client->until_done());
    last = client->got;
    return client->events();
  }

  TempDir temp;
  net::io_context io{1};
  ChildReaper reaper{io.get_executor()};
  BlockingPool pool{2};
  RunHost host{io.get_executor(), reaper, pool};
  CommandEnvironment environment;
  SessionService service{host, environment};
  std::string last;
};

TEST_F(SessionServiceTest, ARunIsInitOutputAndOneFinalEvent) {
  const std::string id = create();
  EXPECT_TRUE(is_uuid(id));
  EXPECT_THAT(run(id, "echo one; echo two >&2; echo; printf three"),
              ElementsAre("init", "stdout:one", "stdout:two", "stdout:three", "execution_complete"));
  EXPECT_THAT(last, HasSubstr("\"text\":\"" + id + "\""));
  EXPECT_THAT(run(id, "bash -c 'exit 7'"), ElementsAre("init", "error:7"));
  EXPECT_THAT(last, HasSubstr(R"("ename":"CommandExecError")"));
}

TEST_F(SessionServiceTest, ExportedValuesOfAnyBytesPersistExactly) {
  const std::string id = create();
  // Every byte a variable can hold, and what a naive dump trips over.
  run(id, R"(printf -v ALL '%b' "$(for i in {1..255}; do printf '\\0%o' $i; done)x"; export ALL
export TRICKY=$'a$HOME `id` $(id) "q" \'s\' \\ \\\\ \n\nEND\n' EMPTY= ; S=${#ALL})");
  for (int again = 0; again < 3; ++again) {
    EXPECT_THAT(run(id, R"(printf -v WANT '%b' "$(for i in {1..255}; do printf '\\0%o' $i; done)x"
[[ $ALL == "$WANT" ]] && echo all same; [[ ${#ALL} == $S ]] && echo length
[[ $TRICKY == $'a$HOME `id` $(id) "q" \'s\' \\ \\\\ \n\nEND\n' ]] && echo tricky same
env | while read -r l; do [[ $l == EMPTY= ]] && echo exported; done; :)"),
                ElementsAre("init", "stdout:all same", "stdout:length", "stdout:tricky same", "stdout:exported",
                            "execution_complete"));
  }
}

TEST_F(SessionServiceTest, FunctionsArraysAndOptionsPersist) {
  const std::string id = create();
  run(id, R"(greet() { local who=$1; cat <<EOF
hello $who
EOF
}; list=(a "b c" $'d\ne'); declare -A map=([k 1]=v); plain=5
shopt -s extglob
ends() { [[ $1 == +(x) ]]; case $1 in +(x)) echo ends;; esac; })");
  EXPECT_THAT(run(id, "greet you; echo ${#list[@]} \"${list[1]}\" \"${map[k 1]}\" $plain; ends xx"),
              ElementsAre("init", "stdout:hello you", "stdout:3 b c v 5", "stdout:ends", "execution_complete"));
  run(id, "umask 027; shopt -s expand_aliases\nalias hi='echo alias'");
  EXPECT_THAT(run(id, "umask; hi there"),
              ElementsAre("init", "stdout:0027", "stdout:alias there", "execution_complete"));
  run(id, "unset -f greet; unset plain");
  EXPECT_THAT(run(id, "type greet >/dev/null 2>&1 || echo gone; echo \"[$plain]\""),
              ElementsAre("init", "stdout:gone", "stdout:[]", "execution_complete"));
}

TEST_F(SessionServiceTest, UnsettingAVariableOfTheDaemonPersists) {
  const std::string id = create();
  EXPECT_THAT(run(id, "echo $INITIAL; unset INITIAL"),
              ElementsAre("init", "stdout:from the daemon", "execution_complete"));
  EXPECT_THAT(run(id, "echo \"[$INITIAL]\""), ElementsAre("init", "stdout:[]", "execution_complete"));
}

TEST_F(SessionServiceTest, ItBeginsWithTheVariablesOfTheFile) {
  const std::string before = create();
  std::ofstream(temp.path() / "envs") << "FOR_ALL='a b'\nINITIAL=\"from the file\"\n";
  const std::string id = create();
  std::ofstream(temp.path() / "envs") << "FOR_ALL=later\n";
  EXPECT_THAT(run(before, "echo [$FOR_ALL] $INITIAL"),
              ElementsAre("init", "stdout:[] from the daemon", "execution_complete"));
  EXPECT_THAT(run(id, "echo $FOR_ALL, $INITIAL; unset FOR_ALL; INITIAL=own"),
              ElementsAre("init", "stdout:a b, from the file", "execution_complete"));
  EXPECT_THAT(run(id, "echo [$FOR_ALL] $INITIAL"), ElementsAre("init", "stdout:[] own", "execution_complete"))
      << "the session's own state wins";
}

TEST_F(SessionServiceTest, TheDirectoryPersistsAsItWasReached) {
  const auto real = temp.path() / "real dir\nx";
  std::filesystem::create_directory(real);
  std::filesystem::create_directory_symlink(real, temp.path() / "link");
  const std::string id = create((temp.path() / "made" / "here").string());
  EXPECT_THAT(run(id, "echo ${PWD##*/}; cd ../../link"), ElementsAre("init", "stdout:here", "execution_complete"));
  EXPECT_THAT(run(id, "echo ${PWD##*/}; cd -P ."), ElementsAre("init", "stdout:link", "execution_complete"));
  EXPECT_THAT(run(id, "[[ $PWD == */$'real dir\\nx' ]] && echo real"),
              ElementsAre("init", "stdout:real", "execution_complete"));
  // A run's own directory stays afterwards.
  EXPECT_THAT(run(id, ":", {}, temp.path().string()), ElementsAre("init", "execution_complete"));
  EXPECT_THAT(run(id, "pwd"), ElementsAre("init", "stdout:" + temp.path().string(), "execution_complete"));
}

TEST_F(SessionServiceTest, ARemovedDirectoryLeavesTheSessionUsable) {
  const std::string id = create((temp.path() / "gone").string());
  run(id, "rmdir \"$PWD\"");
  EXPECT_THAT(run(id, "pwd"), ElementsAre("init", "stdout:" + temp.path().string(), "execution_complete"));
}

TEST_F(SessionServiceTest, ADirectoryBehindALinkOfProcLeavesTheSessionUsable) {
  const std::string id = create();
  EXPECT_THAT(run(id, "A=1; cd /proc/self/cwd"), ElementsAre("init", "execution_complete"));
  EXPECT_THAT(run(id, "echo $A"), ElementsAre("init", "stdout:1", "execution_complete"));
}

TEST_F(SessionServiceTest, ExitReportsItsCodeAndTheStateStays) {
  const std::string id = create();
  EXPECT_THAT(run(id, "export A=1; cd /; f() { local x=1; exit 9; }; f"), ElementsAre("init", "error:9"));
  EXPECT_THAT(run(id, "echo $A $PWD [$x]"), ElementsAre("init", "stdout:1 / []", "execution_complete"));
  EXPECT_THAT(run(id, "set -e; A=2; false; A=3"), ElementsAre("init", "error:1"));
  EXPECT_THAT(run(id, "echo $A; false; echo on"), ElementsAre("init", "stdout:2", "stdout:on", "execution_complete"));
  // Replaced or killed before its end: as it was before.
  EXPECT_THAT(run(id, "A=4; exec bash -c 'exit 5'"), ElementsAre("init", "error:5"));
  EXPECT_THAT(run(id, "A=5; kill -9 $$"), ElementsAre("init", "error:-1"));
  EXPECT_THAT(run(id, "echo $A"), ElementsAre("init", "stdout:2", "execution_complete"));
}

TEST_F(SessionServiceTest, TrapsAndTracesOfTheUserSeeNothingOfOurs) {
  const std::string id = create();
  EXPECT_THAT(run(id, "trap 'echo bye $?' EXIT; export T=1; (exit 3)"), ElementsAre("init", "stdout:bye 3", "error:3"));
  EXPECT_THAT(run(id, "echo $T; trap 'echo dbg' DEBUG"), ElementsAre("init", "stdout:1", "execution_complete"));
  EXPECT_THAT(run(id, "set -x; :"), ElementsAre("init", "stdout:++ :", "execution_complete"));
  EXPECT_THAT(run(id, "declare -F; compgen -v | while read -r v; do [[ $v == *osb* ]] && echo $v; done; :"),
              ElementsAre("init", "execution_complete"));
}

TEST_F(SessionServiceTest, ProgramsInheritNoDescriptorOfOurs) {
  const std::string id = create();
  EXPECT_THAT(run(id, "ls /proc/self/fd"),
              ElementsAre("init", "stdout:0", "stdout:1", "stdout:2", "stdout:3", "execution_complete"));
}

TEST_F(SessionServiceTest, TextIsTakenVerbatim) {
  const std::string id = create();
  EXPECT_THAT(run(id, "cat <<'E'\n$x `y` \\\nE\ncat <<E\nlast $((1+1))\nE"),
              ElementsAre("init", "stdout:$x `y` \\", "stdout:last 2", "execution_complete"));
  EXPECT_THAT(run(id, "# a comment\necho 'it''s' \"$LINENO\" $# \"$0\"  # end"),
              ElementsAre("init", "stdout:its 2 0 bash", "execution_complete"));
  EXPECT_THAT(run(id, "echo before\nif"), ElementsAre("init", "stdout:before", HasSubstr("syntax error"), "error:2"));
  EXPECT_THAT(run(id, "no-such-program"),
              ElementsAre("init", "stdout:bash: line 1: no-such-program: command not found", "error:127"));
  // Longer than one argument of a program may be.
  EXPECT_THAT(run(id, "x=" + std::string(300'000, 'y') + "; echo ${#x}; export x"),
              ElementsAre("init", "stdout:300000", "execution_complete"));
  EXPECT_THAT(run(id, "echo ${#x}"), ElementsAre("init", "stdout:300000", "execution_complete"));
}

TEST_F(SessionServiceTest, ATimeoutEndsTheRunAndNothingElse) {
  const std::string id = create();
  run(id, "export A=before");
  EXPECT_THAT(run(id, "A=after; sleep 1000 & sleep 1000", std::chrono::milliseconds(100)),
              ElementsAre("init", "error:-1"));
  EXPECT_THAT(last, HasSubstr(R"("traceback":["timeout after 100 ms","signal: killed"])"));
  EXPECT_THAT(run(id, "echo $A"), ElementsAre("init", "stdout:before", "execution_complete"));
}

TEST_F(SessionServiceTest, ABackgroundChildDoesNotHoldTheRun) {
  const std::string id = create();
  const Events events = run(id, "sleep 1000 & echo $!");
  ASSERT_THAT(events, ElementsAre("init", StartsWith("stdout:"), "execution_complete"));
  EXPECT_EQ(::kill(std::stoi(events[1].substr(7)), SIGKILL), 0);
}

TEST_F(SessionServiceTest, RunsOfOneSessionComeOneAfterTheOther) {
  const std::string id = create();
  const std::string gate = temp.path() / "gate";
  ASSERT_EQ(::mkfifo(gate.c_str(), 0600), 0);
  const auto first = begin(id, "export N=1; echo waiting; read x <" + gate + "; N=$x");
  const auto second = begin(id, "echo second $N; N=3");
  const auto third = begin(id, "echo third $N");
  await(io, first->until_got("waiting"));
  EXPECT_EQ(second->got, "");
  std::ofstream(gate) << "2\n";
  await(io, third->until_done());
  EXPECT_THAT(second->events(), ElementsAre("init", "stdout:second 2", "execution_complete"));
  EXPECT_THAT(third->events(), ElementsAre("init", "stdout:third 3", "execution_complete"));
}

TEST_F(SessionServiceTest, AClientThatLeavesTakesItsRunAlong) {
  const std::string id = create();
  const auto running = begin(id, "echo on; sleep 1000");
  const auto waiting = begin(id, ">" + (temp.path() / "never").string());
  await(io, running->until_got("\"on\""));
  waiting->leave();
  await(io, waiting->until_done());
  EXPECT_EQ(waiting->got, "");
  running->leave();
  await(io, running->until_done());
  EXPECT_THAT(run(id, "echo next"), ElementsAre("init", "stdout:next", "execution_complete"));
  EXPECT_FALSE(std::filesystem::exists(temp.path() / "never"));
}

TEST_F(SessionServiceTest, DeletingASessionEndsItsRuns) {
  const std::string id = create();
  const auto running = begin(id, "echo on; sleep 1000");
  const auto waiting = begin(id, "echo never");
  await(io, running->until_got("\"on\""));
  const auto interrupted = await(io, service.interrupt(id));
  ASSERT_TRUE(interrupted);
  EXPECT_TRUE(interrupted->has_value());
  await(io, running->until_done());
  await(io, waiting->until_done());
  EXPECT_THAT(running->events(), ElementsAre("init", "stdout:on", "error:-1"));
  EXPECT_THAT(waiting->events(), ElementsAre("init", "error:the session was deleted"));
  EXPECT_EQ(service.find(id), nullptr);
  EXPECT_FALSE(await(io, service.remove(id)));
  EXPECT_FALSE(await(io, service.interrupt(id)).has_value());
}

TEST_F(SessionServiceTest, ACwdThatIsNoDirectoryIsRefused) {
  EXPECT_EQ(service.check({"x", "/no/such/dir", {}}).error().code, Code::InvalidRequest);
  EXPECT_EQ(service.check({"x", "$NO_SUCH_VARIABLE", {}}).error().code, Code::InvalidRequest);
  EXPECT_EQ(service.create({"/dev/null/x"}).error().code, Code::Internal);
  EXPECT_EQ(service.check({"x", "", {}})->cwd, "");
}

TEST_F(SessionServiceTest, AThousandIdleSessionsStartNothing) {
  for (int i = 0; i < 1000; ++i) create();
  EXPECT_EQ(service.size(), 1000U);
  EXPECT_EQ(pool.threads(), 0U);
}

// Where there is no bash.
class ShSessionTest : public SessionServiceTest, public ::testing::WithParamInterface<const char*> {
 protected:
  ShSessionTest() : SessionServiceTest(GetParam()) {}
};

TEST_P(ShSessionTest, ExportedVariablesAndTheDirectoryPersist) {
  const std::string id = create();
  EXPECT_THAT(run(id, "export A='it'\"'\"'s $HOME `x` \\ \"q\"\nline'; unset INITIAL; cd /; cat <<E\nhere\nE"),
              ElementsAre("init", "stdout:here", "execution_complete"));
  EXPECT_THAT(
      run(id,
          "echo \"$PWD [$INITIAL]\"; env | while read -r l; do case $l in A=*|line) printf '%s\\n' \"$l\";; "
          "esac; done"),
      ElementsAre("init", "stdout:/ []", "stdout:A=it's $HOME `x` \\ \"q\"", "stdout:line", "execution_complete"));
  EXPECT_THAT(run(id, "A=2; exit 4"), ElementsAre("init", "error:4"));
  EXPECT_THAT(run(id, "sleep 1000", std::chrono::milliseconds(100)), ElementsAre("init", "error:-1"));
  EXPECT_THAT(run(id, "env ls /proc/self/fd; echo ${#A}"),
              ElementsAre("init", "stdout:0", "stdout:1", "stdout:2", "stdout:3", "stdout:25", "execution_complete"));
}

INSTANTIATE_TEST_SUITE_P(Shells, ShSessionTest, ::testing::Values("/bin/dash", "/bin/busybox"));

}  // namespace
}  // namespace osb::execd
