#include "sys/spawn.h"

#include <filesystem>
#include <fstream>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/temp_dir.h"
#include "sys/pty.h"
#include "sys/syscall.h"

namespace osb::sys {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

SpawnPlan shell(std::string script) {
  SpawnPlan plan;
  plan.program = "/bin/sh";
  plan.argv = {"sh", "-c", std::move(script)};
  plan.env = {"PATH=/usr/bin:/bin"};
  return plan;
}

std::string read_to_end(int fd) {
  std::string out;
  char buffer[4096];
  for (ssize_t got; (got = ::read(fd, buffer, sizeof buffer)) > 0;) out.append(buffer, static_cast<std::size_t>(got));
  return out;
}

struct Ran {
  std::string out;
  ExitStatus status;
};

// Runs the plan with its standard output in a pipe.
Ran run(SpawnPlan plan) {
  auto pipe = make_pipe();
  EXPECT_TRUE(pipe);
  plan.fds.emplace_back(1, pipe->write.get());
  auto child = spawn(plan);
  EXPECT_TRUE(child) << child.error().message;
  if (!child) return {};
  pipe->write.reset();
  Ran ran;
  ran.out = read_to_end(pipe->read.get());
  auto status = reap(*child);
  EXPECT_TRUE(status) << status.error().message;
  if (status) ran.status = *status;
  return ran;
}

std::string read_file(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

#define SKIP_UNLESS_ROOT() \
  if (::geteuid() != 0) GTEST_SKIP() << "needs root"

TEST(Spawn, ArgumentsEnvironmentAndDirectoryReachTheProgram) {
  testing::TempDir dir;
  SpawnPlan plan = shell("echo \"$0|$1|$KEY|$(pwd -P)\"");
  plan.argv.insert(plan.argv.end(), {"zero", "one two"});
  plan.env.push_back("KEY=value = x");
  plan.cwd = dir.path();
  EXPECT_EQ(run(plan).out, "zero|one two|value = x|" + std::filesystem::canonical(dir.path()).string() + "\n");
}

TEST(Spawn, TheDirectoryMayBeALinkButNoneToWhatWeHaveOpen) {
  testing::TempDir dir;
  const std::filesystem::path target = std::filesystem::canonical(dir.path()) / "target";
  std::filesystem::create_directory(target);
  std::filesystem::create_directory_symlink("target", dir / "link");
  SpawnPlan plan = shell("pwd -P");
  plan.cwd = dir / "link";
  EXPECT_EQ(run(plan).out, target.string() + "\n");
  plan.cwd = "/proc/self";  // an ordinary link on every file system
  EXPECT_THAT(run(plan).out, StartsWith("/proc/"));

  const UniqueFd open(::open(target.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::string magic = "/proc/self/fd/" + std::to_string(open.get());
  std::filesystem::create_directory_symlink(magic, dir / "disguised");
  for (const std::string& path :
       {magic, magic + "/.", "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(open.get()),
        std::string("/proc/self/cwd"), (dir / "disguised").string()}) {
    plan.cwd = path;
    const auto child = spawn(plan);
    ASSERT_FALSE(child) << path;
    EXPECT_EQ(child.error().sys_errno, ELOOP) << child.error().message;
  }
}

TEST(Spawn, ExitCodesAndSignalsAreToldApart) {
  const Ran exited = run(shell("exit 7"));
  EXPECT_EQ(exited.status.code, 7);
  EXPECT_EQ(exited.status.signal, 0);
  const Ran killed = run(shell("kill -KILL $$"));
  EXPECT_EQ(killed.status.signal, SIGKILL);
  EXPECT_FALSE(killed.status.ok());
}

TEST(Spawn, AMissingProgramKeepsItsErrnoAndLeavesNoZombie) {
  SpawnPlan plan = shell("");
  plan.program = "/no/such/program";
  const auto child = spawn(plan);
  ASSERT_FALSE(child);
  EXPECT_EQ(child.error().sys_errno, ENOENT);
  EXPECT_EQ(child.error().code, Code::NotFound);
  EXPECT_THAT(child.error().message, StartsWith("exec /no/such/program"));
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(Spawn, AFailingStepIsNamed) {
  SpawnPlan cwd = shell("true");
  cwd.cwd = "/no/such/dir";
  SpawnPlan cgroup = shell("true");
  cgroup.cgroup_procs = {"/no/such/cgroup.procs"};
  SpawnPlan tty = shell("true");
  tty.group = SpawnPlan::Group::NewSession;
  tty.controlling_tty = 0;  // /dev/null is no terminal
  SpawnPlan fds = shell("true");
  fds.fds = {{5, 999}};
  SpawnPlan directory = shell("true");
  directory.program = "/";
  struct {
    SpawnPlan* plan;
    const char* step;
    int error;
  } rows[] = {{&cwd, "chdir /no/such/dir", ENOENT},
              {&cgroup, "join cgroup", ENOENT},
              {&tty, "controlling terminal", ENOTTY},
              {&fds, "descriptors", EBADF},
              {&directory, "exec /", EACCES}};
  for (const auto& row : rows) {
    const auto child = spawn(*row.plan);
    ASSERT_FALSE(child) << row.step;
    EXPECT_THAT(child.error().message, HasSubstr(row.step));
    EXPECT_EQ(child.error().sys_errno, row.error) << row.step;
  }
}

TEST(Spawn, BrokenPlansAreRefused) {
  SpawnPlan empty;
  EXPECT_EQ(spawn(empty).error().code, Code::InvalidRequest);
  SpawnPlan nul = shell(std::string("a\0b", 3));
  EXPECT_EQ(spawn(nul).error().code, Code::InvalidRequest);
}

TEST(Spawn, OnlyNamedDescriptorsAreOpenInTheChild) {
  const UniqueFd leaky(::open("/dev/zero", O_RDONLY));  // not close-on-exec
  const UniqueFd wanted(::open("/dev/full", O_RDONLY | O_CLOEXEC));
  SpawnPlan plan = shell("for f in /proc/$$/fd/*; do echo \"${f##*/} $(readlink $f)\"; done");
  plan.fds = {{7, wanted.get()}};
  const std::string out = run(plan).out;
  EXPECT_THAT(out, HasSubstr("0 /dev/null\n"));
  EXPECT_THAT(out, HasSubstr("2 /dev/null\n"));
  EXPECT_THAT(out, HasSubstr("7 /dev/full\n"));
  EXPECT_THAT(out, ::testing::Not(HasSubstr("/dev/zero")));
}

TEST(Spawn, DescriptorsMayTradePlaces) {
  auto a = make_pipe();
  auto b = make_pipe();
  ASSERT_TRUE(a && b);
  SpawnPlan plan;
  plan.program = "/bin/bash";  // dash knows one-digit descriptors only
  plan.argv = {"bash", "-c",
               "echo to-a >&" + std::to_string(b->write.get()) + "; echo to-b >&" + std::to_string(a->write.get())};
  // Each number is the other's source, and one is its own.
  plan.fds = {{a->write.get(), b->write.get()}, {b->write.get(), a->write.get()}, {a->read.get(), a->read.get()}};
  auto child = spawn(plan);
  ASSERT_TRUE(child) << child.error().message;
  a->write.reset();
  b->write.reset();
  EXPECT_EQ(read_to_end(a->read.get()), "to-a\n");
  EXPECT_EQ(read_to_end(b->read.get()), "to-b\n");
  EXPECT_TRUE(reap(*child)->ok());
}

TEST(Spawn, SignalsAreDefaultAndUnblockedInTheChild) {
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGUSR1, [](int) {});
  sigset_t set, before;
  sigfillset(&set);
  ::pthread_sigmask(SIG_SETMASK, &set, &before);
  SpawnPlan plan;  // not a shell: they change signals themselves
  plan.program = "/bin/cat";
  plan.argv = {"cat", "/proc/self/status"};
  const std::string out = run(plan).out;
  sigset_t after;
  ::pthread_sigmask(SIG_SETMASK, &before, &after);
  EXPECT_TRUE(sigismember(&after, SIGUSR2)) << "the caller's mask is put back";
  ::signal(SIGPIPE, SIG_DFL);
  ::signal(SIGUSR1, SIG_DFL);
  for (const char* field : {"SigBlk:\t", "SigIgn:\t", "SigCgt:\t"}) {
    EXPECT_THAT(out, HasSubstr(std::string(field) + "0000000000000000\n"));
  }
}

TEST(Spawn, GroupsAndSessionsAreMadeAsAsked) {
  const std::string script = "cut -d' ' -f1,5,6 /proc/$$/stat";  // pid, process group, session
  const auto ids = [&](SpawnPlan::Group group) {
    SpawnPlan plan = shell(script);
    plan.group = group;
    std::istringstream in(run(plan).out);
    std::array<long, 3> out{};
    in >> out[0] >> out[1] >> out[2];
    return out;
  };
  const auto inherit = ids(SpawnPlan::Group::Inherit);
  EXPECT_EQ(inherit[1], ::getpgrp());
  const auto group = ids(SpawnPlan::Group::NewGroup);
  EXPECT_EQ(group[1], group[0]);
  EXPECT_EQ(group[2], ::getsid(0));
  const auto session = ids(SpawnPlan::Group::NewSession);
  EXPECT_EQ(session[1], session[0]);
  EXPECT_EQ(session[2], session[0]);
}

TEST(Spawn, ATerminalBecomesTheControllingOne) {
  auto pty = open_pty({.columns = 91, .rows = 33});
  ASSERT_TRUE(pty) << pty.error().message;
  SpawnPlan plan = shell("stty size </dev/tty; [ -t 0 ] && [ -t 1 ] && echo yes");
  plan.group = SpawnPlan::Group::NewSession;
  plan.controlling_tty = 0;
  plan.fds = {{0, pty->terminal.get()}, {1, pty->terminal.get()}, {2, pty->terminal.get()}};
  auto child = spawn(plan);
  ASSERT_TRUE(child) << child.error().message;
  pty->terminal.reset();
  EXPECT_EQ(read_to_end(pty->master.get()), "33 91\r\nyes\r\n");
  EXPECT_TRUE(reap(*child)->ok());
}

TEST(Spawn, ThePidfdBelongsToTheChild) {
  SpawnPlan plan = shell("exec sleep 1000");
  auto child = spawn(plan);
  ASSERT_TRUE(child);
  pollfd ended{child->pidfd.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&ended, 1, 0), 0);
  ASSERT_EQ(::syscall(SYS_pidfd_send_signal, child->pidfd.get(), SIGTERM, nullptr, 0), 0);
  EXPECT_EQ(::poll(&ended, 1, -1), 1);
  EXPECT_EQ(reap(*child)->signal, SIGTERM);
}

TEST(Spawn, UserGroupsAndDirectoryFollowTheUser) {
  SKIP_UNLESS_ROOT();
  testing::TempDir dir;
  SpawnPlan plan = shell("id -u; id -g; id -G; grep -E '^(CapEff|Uid)' /proc/$$/status");
  plan.uid = 12345;
  plan.gid = 23456;
  plan.groups = {{34567, 45678}};
  const std::string out = run(plan).out;
  EXPECT_THAT(out, StartsWith("12345\n23456\n23456 34567 45678\n"));
  EXPECT_THAT(out, HasSubstr("CapEff:\t0000000000000000\n"));
  EXPECT_THAT(out, HasSubstr("Uid:\t12345\t12345\t12345\t12345\n"));

  ASSERT_EQ(::chmod(dir.path().c_str(), 0700), 0);
  plan.cwd = dir.path();  // root could enter, the user cannot
  const auto child = spawn(plan);
  ASSERT_FALSE(child);
  EXPECT_EQ(child.error().sys_errno, EACCES);
}

TEST(Spawn, AnOpenProgramRunsForAUserWhoCannotReachIt) {
  SKIP_UNLESS_ROOT();
  testing::TempDir dir;
  std::filesystem::copy_file("/usr/bin/id", dir / "id");
  ASSERT_EQ(::chmod(dir.path().c_str(), 0700), 0);
  SpawnPlan plan;
  plan.program = dir / "id";
  plan.argv = {"id", "-u"};
  plan.uid = 12345;
  const auto refused = spawn(plan);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().sys_errno, EACCES);

  const auto program = open_at(AT_FDCWD, plan.program, O_PATH);
  ASSERT_TRUE(program);
  // Another descriptor gets the number that the program has here.
  plan.fds = {{program->get(), 2}};
  plan.program_fd = program->get();
  EXPECT_EQ(run(plan).out, "12345\n");
}

TEST(Spawn, AnotherUserNeverGetsOurGroups) {
  SKIP_UNLESS_ROOT();
  const gid_t ours[] = {7, 8};
  ASSERT_EQ(::syscall(SYS_setgroups, 2, ours), 0);
  SpawnPlan plan = shell("id -G");
  plan.uid = 12345;
  plan.gid = 12345;
  const std::string out = run(plan).out;
  ASSERT_EQ(::syscall(SYS_setgroups, 0, nullptr), 0);
  EXPECT_EQ(out, "12345\n");
}

TEST(Spawn, TheParentStaysDumpableWhenAChildChangesUser) {
  SKIP_UNLESS_ROOT();
  ASSERT_EQ(::prctl(PR_GET_DUMPABLE), 1);
  SpawnPlan plan = shell("true");
  plan.uid = 12345;
  EXPECT_TRUE(run(plan).status.ok());
  EXPECT_EQ(::prctl(PR_GET_DUMPABLE), 1);
}

TEST(Spawn, OomScoreAdjIsTheChildsOnly) {
  const std::string before = read_file("/proc/self/oom_score_adj");
  SpawnPlan plan = shell("cat /proc/self/oom_score_adj");
  plan.oom_score_adj = 777;
  EXPECT_EQ(run(plan).out, "777\n");
  EXPECT_EQ(read_file("/proc/self/oom_score_adj"), before);
}

TEST(Spawn, NamespacesAreMadeAndAFirstProcessMaySpawn) {
  SKIP_UNLESS_ROOT();
  SpawnPlan plan = shell("echo $$");
  plan.namespaces = CLONE_NEWPID | CLONE_NEWUTS;
  EXPECT_EQ(run(plan).out, "1\n");
}

// Runs `body` in a forked copy of the test; the exit code names the failed check.
int exit_code_of(int (*body)(), int clone_flags = 0) {
  const long pid = ::syscall(SYS_clone, SIGCHLD | clone_flags, nullptr, nullptr, nullptr, 0UL);
  if (pid == 0) ::_exit(body());
  int status = 0;
  EXPECT_EQ(::waitpid(static_cast<pid_t>(pid), &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

TEST(Spawn, WorksInPidOneOfANamespace) {
  SKIP_UNLESS_ROOT();
  EXPECT_EQ(exit_code_of(
                [] {
                  if (::getpid() != 1) return 1;
                  auto child = spawn(shell("exit 42"));
                  if (!child) return 2;
                  const auto status = reap(*child);
                  return status && status->code == 42 ? 0 : 3;
                },
                CLONE_NEWPID),
            0);
}

TEST(Spawn, WorksWithoutStandardDescriptors) {
  EXPECT_EQ(exit_code_of([] {
              auto pipe = make_pipe();
              ::close(0);
              ::close(1);
              ::close(2);
              SpawnPlan plan = shell("echo out; echo err >&2; [ \"$(readlink /proc/$$/fd/0)\" = /dev/null ]");
              plan.fds = {{1, pipe->write.get()}, {2, pipe->write.get()}};
              auto child = spawn(plan);
              if (!child) return 1;
              pipe->write.reset();
              if (read_to_end(pipe->read.get()) != "out\nerr\n") return 2;
              if (!reap(*child)->ok()) return 3;
              plan.program = "/nope";
              plan.fds.clear();  // the pipe is closed by now
              return spawn(plan).error().sys_errno == ENOENT ? 0 : 4;
            }),
            0);
}

TEST(Spawn, ManyThreadsMaySpawnAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i) {
        auto child = spawn(shell("exit 3"));
        if (child && reap(*child)->code == 3) ++good;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(good, 40);
}

TEST(SpawnIntoCgroup, APathThatIsNoCgroupIsReportedAndNotUsed) {
  const auto directory = open_at(AT_FDCWD, "/tmp", O_PATH | O_DIRECTORY);
  ASSERT_TRUE(directory);
  const auto file = open_at(AT_FDCWD, "/dev/full", O_WRONLY);
  ASSERT_TRUE(file);
  for (const bool v2 : {true, false}) {
    SpawnPlan plan = shell("exit 7");
    (v2 ? plan.cgroup_fd : plan.cgroup_tasks_fd) = (v2 ? directory : file)->get();
    const auto child = spawn(plan);
    ASSERT_TRUE(child) << child.error().message;
    EXPECT_FALSE(child->in_cgroup);
    EXPECT_EQ(reap(*child)->code, 7);
  }
}

TEST(Spawn, WithoutDevNullStandardInputIsEmptyAndTheRestCannotBeWritten) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to hide /dev";
  const pid_t pid = ::fork();
  if (pid == 0) {
    // A private /dev without anything in it.
    if (::unshare(CLONE_NEWNS) < 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) < 0 ||
        ::mount("none", "/dev", "tmpfs", 0, nullptr) < 0 || ::access("/dev/null", F_OK) == 0) {
      ::_exit(77);
    }
    const Ran ran = run(shell("cat; echo end; if echo x >&2; then echo written; fi"));
    ::_exit(ran.out == "end\n" && ran.status.signal == 0 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "no mount namespace";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(FindProgram, TakesTheFirstExecutableFile) {
  testing::TempDir dir;
  std::filesystem::create_directories(dir / "a/tool");  // a directory is no program
  std::filesystem::create_directories(dir / "b");
  std::filesystem::create_directories(dir / "c");
  std::ofstream(dir / "b/tool") << "x";  // not executable
  std::ofstream(dir / "c/tool") << "x";
  ASSERT_EQ(::chmod((dir / "c/tool").c_str(), 0755), 0);
  const std::string root = dir.path();
  EXPECT_EQ(find_program("tool", root + "/a:" + root + "/b:" + root + "/c"), root + "/c/tool");
  EXPECT_EQ(find_program("tool", root + "/a"), std::nullopt);
  EXPECT_EQ(find_program("./tool", ""), "./tool");
  EXPECT_EQ(find_program("", "/bin"), std::nullopt);
}

}  // namespace
}  // namespace osb::sys
