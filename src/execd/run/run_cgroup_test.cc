// Runs in cgroups of their own: processes that no other bookkeeping finds are killed, and no others.

#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <poll.h>
#include <signal.h>
#include <string>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include "execd/run/outcome.h"
#include "execd/run/run.h"
#include "support/await.h"
#include "support/temp_dir.h"
#include "sys/pidfd.h"
#include "sys/syscall.h"

namespace osb::execd {
namespace {

namespace fs = std::filesystem;
using CommandRun = Run;  // gtest has a Run of its own

// Another session, no parent of ours, no environment, no descriptor; then it says who it is.
std::string escape_to(const fs::path& fifo) {
  const std::string script = fifo.string() + ".sh";
  std::ofstream(script) << "exec <&- >&- 2>&-\ntrap '' TERM HUP\necho $$ > " << fifo.string()
                        << "\nwhile :; do sleep 1000; done\n";
  return "(env -i setsid sh -c 'env -i setsid sh " + script + " & exit' &)";
}

class RunCgroupTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    const auto found = sys::find_cgroups();
    if (!found.v2) GTEST_SKIP() << "no cgroup v2 here";
    own = found.v2->path + "/osb-test-run-" + std::to_string(::getpid());
    std::error_code error;
    if (!fs::create_directory(own, error)) {
      own.clear();
      GTEST_SKIP() << "not writable: needs root";
    }
    std::ofstream(dir / "cgroup") << "0::/\n";
    std::ofstream(dir / "mountinfo") << "1 1 0:1 / " + own + " rw - cgroup2 cgroup2 rw\n";
    make({dir / "cgroup", dir / "mountinfo"});
  }

  void TearDown() override {
    host.reset();
    if (own.empty()) return;
    EXPECT_TRUE(emptied()) << "a process outlived its run";
    EXPECT_EQ(::rmdir(own.c_str()), 0) << "everything below it is gone";
  }

  // A process that was killed is a member until the kernel has taken it down, which a slow machine does later.
  bool emptied() const {
    const auto events = sys::open_at(AT_FDCWD, own + "/cgroup.events", O_RDONLY);
    if (!events) return false;
    for (;;) {
      char text[256];
      const ssize_t size = ::pread(events->get(), text, sizeof text, 0);
      if (size < 0) return false;
      if (std::string_view(text, static_cast<std::size_t>(size)).contains("populated 0")) return true;
      pollfd changed{.fd = events->get(), .events = POLLPRI, .revents = 0};
      if (::poll(&changed, 1, 20'000) != 1) return false;
    }
  }

  void make(sys::CgroupSources sources) {
    host = std::make_unique<RunHost>(io.get_executor(), reaper, pool, std::move(sources));
  }

  std::shared_ptr<CommandRun> start(std::string script, std::chrono::milliseconds timeout = {}) {
    RunPlan plan;
    plan.id = "run" + std::to_string(count++);
    plan.process.program = "/bin/sh";
    plan.process.argv = {"sh", "-c", std::move(script)};
    plan.process.env = {"PATH=/usr/bin:/bin"};
    plan.timeout = timeout;
    plan.on_end = [](const RunEnd& end, EventWriter& writer) { write_outcome(writer, end); };
    auto run = std::make_shared<CommandRun>(*host, std::move(plan));
    const auto started = run->start();
    EXPECT_TRUE(started) << started.error().message;
    return run;
  }

  void run_until(const std::function<bool()>& condition) {
    io.restart();
    while (!condition()) io.run_one();
  }
  void finish(const CommandRun& run) {
    run_until([&] { return run.exited(); });
  }

  UniqueFd handle_from(const fs::path& fifo) {
    // By hand: the end of a child interrupts a stream's open and read.
    const auto file = sys::open_at(AT_FDCWD, fifo, O_RDONLY);
    EXPECT_TRUE(file);
    std::string text;
    char byte = 0;
    while (file && byte != '\n') {
      const ssize_t n = ::read(file->get(), &byte, 1);
      if (n == 0 || (n < 0 && errno != EINTR)) break;
      if (n == 1) text += byte;
    }
    const pid_t pid = std::atoi(text.c_str());
    EXPECT_GT(pid, 1) << text;
    auto handle = sys::open_pidfd(pid);
    EXPECT_TRUE(handle);
    return handle ? std::move(*handle) : UniqueFd();
  }
  static bool ended(const UniqueFd& handle) { return sys::wait_ended(handle.get(), std::chrono::seconds(20)); }

  testing::TempDir dir;
  std::string own;
  int count = 0;
  net::io_context io{1};
  BlockingPool pool{2};
  ChildReaper reaper{io.get_executor()};
  std::unique_ptr<RunHost> host;
};

TEST_F(RunCgroupTest, TheEscapeArtistDiesOnTimeout) {
  ASSERT_EQ(::mkfifo((dir / "who").c_str(), 0600), 0);
  const auto run = start(escape_to(dir / "who") + "; exec sleep 1000", std::chrono::milliseconds(500));
  const UniqueFd escaped = handle_from(dir / "who");
  finish(*run);
  EXPECT_TRUE(run->end().timed_out);
  EXPECT_TRUE(ended(escaped));
}

TEST_F(RunCgroupTest, TheEscapeArtistDiesOnStop) {
  ASSERT_EQ(::mkfifo((dir / "who").c_str(), 0600), 0);
  const auto run = start(escape_to(dir / "who") + "; exec sleep 1000");
  const UniqueFd escaped = handle_from(dir / "who");
  EXPECT_TRUE(testing::await(io, run->stop(std::chrono::milliseconds(50), CommandRun::StopCause::Shutdown)));
  EXPECT_TRUE(ended(escaped));
  EXPECT_EQ(run->end().status.signal, SIGTERM);
}

TEST_F(RunCgroupTest, ADaemonSurvivesANormalEndAndItsCgroupGoesWithIt) {
  ASSERT_EQ(::mkfifo((dir / "who").c_str(), 0600), 0);
  const auto run = start(escape_to(dir / "who"));
  const UniqueFd daemon = handle_from(dir / "who");
  finish(*run);
  EXPECT_TRUE(run->end().status.ok());
  EXPECT_EQ(host->cgroups().kept(), 1U);
  run->kill_tree();  // has ended: nothing happens
  finish(*start("true"));
  EXPECT_FALSE(sys::wait_ended(daemon.get(), std::chrono::milliseconds(0)));
  EXPECT_EQ(host->cgroups().kept(), 1U);
  // Its shell ignores what is polite; its child goes on for a moment.
  const auto members = sys::Cgroup(own, sys::Cgroup::Kind::V2);
  ASSERT_TRUE(members.kill());
  run_until([&] { return host->cgroups().kept() == 0; });
  EXPECT_EQ(host->cgroups().idle(), 2U) << "not killed by their own files: as good as new";
}

TEST_F(RunCgroupTest, AKillThatIsStillUnderWayNeverReachesTheNextRun) {
  for (int i = 0; i < 30; ++i) {
    const auto killed = start("exec sleep 1000");
    killed->kill_tree();
    ::kill(killed->pid(), SIGKILL);  // ends before the kill's thread has come to it
    finish(*killed);
    const auto next = start("exit 5");
    finish(*next);
    EXPECT_EQ(next->end().status.code, 5);
  }
}

TEST_F(RunCgroupTest, ManyRunsLeaveNothingBehind) {
  for (int i = 0; i < 500; ++i) finish(*start(":"));
  EXPECT_EQ(host->cgroups().idle(), 1U);
  EXPECT_EQ(host->cgroups().kept(), 0U);
  host->close_cgroups();
  for (const auto& entry : fs::directory_iterator(own)) EXPECT_FALSE(entry.is_directory()) << entry.path();
  finish(*start(":"));  // goes without
}

TEST_F(RunCgroupTest, WithoutAWritableCgroupEverythingElseWorks) {
  make({dir / "cgroup", "/nonexistent"});
  const auto run = start("setsid sleep 1000 & exec sleep 1000", std::chrono::milliseconds(200));
  finish(*run);
  EXPECT_TRUE(run->end().timed_out);
  EXPECT_FALSE(host->cgroups().lease());
}

TEST_F(RunCgroupTest, ARefusedCgroupIsDoneWithout) {
  // A directory that can be written, but is no cgroup.
  fs::create_directories(dir / "plain");
  std::ofstream(dir / "mountinfo") << "1 1 0:1 / " + (dir / "plain").string() + " rw - cgroup2 cgroup2 rw\n";
  make({dir / "cgroup", dir / "mountinfo"});
  for (int i = 0; i < 3; ++i) {
    const auto run = start("exit 4");
    finish(*run);
    EXPECT_EQ(run->end().status.code, 4);
    EXPECT_FALSE(host->cgroups().lease()) << "found out once";
  }
  host->close_cgroups();
  EXPECT_TRUE(fs::is_empty(dir / "plain"));
}

// The end of the output and of the process are found in the same moment, and the reader makes room between the two.
TEST_F(RunCgroupTest, ARunWithASlowReaderEndsOnce) {
  for (int i = 0; i < 20; ++i) {
    int ends = 0;
    RunPlan plan;
    plan.id = "slow" + std::to_string(i);
    plan.process.program = "/bin/sh";
    plan.process.argv = {"sh", "-c", "seq 400"};
    plan.process.env = {"PATH=/usr/bin:/bin"};
    plan.log = {4096, 0, {}, true};
    plan.on_end = [&ends](const RunEnd& end, EventWriter& writer) {
      ++ends;
      write_outcome(writer, end);
    };
    const auto run = std::make_shared<CommandRun>(*host, std::move(plan));
    EventReader reader(run->log(), 0, [] {});
    ASSERT_TRUE(run->start());
    const auto process = sys::open_pidfd(run->pid());
    ASSERT_TRUE(process);
    run_until([&] { return run->log()->congested(); });
    ASSERT_TRUE(ended(*process));
    for (int step = 0; step < i % 4; ++step) io.run_one();
    while (!reader.at_end()) {
      (void)reader.next();
      (void)reader.next();  // counts the first as taken
      io.poll_one();
    }
    io.poll();
    EXPECT_EQ(ends, 1);
  }
}

}  // namespace
}  // namespace osb::execd
