#include "taskexecutor/supervisor.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <fcntl.h>
#include <optional>
#include <sched.h>
#include <string>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "base/deadline.h"
#include "base/parse_number.h"
#include "base/unique_fd.h"
#include "sys/cgroup.h"
#include "sys/process_tree.h"
#include "sys/replace_file.h"
#include "sys/spawn.h"
#include "sys/syscall.h"
#include "sys/write_all.h"
#include "taskexecutor/task_directory.h"

namespace osb::taskexecutor {
namespace {

// As a shell has it.
constexpr int kNotFound = 127, kNotExecutable = 126;

[[noreturn]] void refuse(const std::string& why) {
  (void)sys::write_all(kReportFd, why, "report");
  std::_Exit(1);
}

void keep_from_task(int fd) { ::fcntl(fd, F_SETFD, FD_CLOEXEC); }

bool wait_for_go() {
  char byte;
  ssize_t got;
  do got = ::read(kGoFd, &byte, 1);
  while (got < 0 && errno == EINTR);
  ::close(kGoFd);
  return got == 1;
}

// The mount namespace last: it changes the root, where the others are of no interest.
void enter_namespaces(int count) {
  for (int fd = kFirstNamespaceFd; fd < kFirstNamespaceFd + count; ++fd) {
    if (::setns(fd, 0) < 0) refuse(sys::from_errno("enter the main container", errno).error().message);
    ::close(fd);
  }
}

int shell_code(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

void record_exit(int code) {
  // Without this record the executor reports a crash, which is the best that is left to say.
  (void)sys::replace_file(kDirectoryFd, "exit", std::to_string(code));
}

std::string variable(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

// A program that cannot be run ends as in a shell: a line on stderr and 127 or 126.
[[noreturn]] void end_unrunnable(const std::string& message, int code) {
  (void)sys::write_all(2, "task-executor: " + message + "\n", "stderr");
  record_exit(code);
  std::_Exit(code);
}

class Supervisor {
 public:
  Supervisor(pid_t task, std::string cgroup) : task_(task) {
    if (!cgroup.empty()) cgroup_ = sys::Cgroup::at(std::move(cgroup));
    tree_.leader = ::getpid();
    tree_.leader_start = sys::read_process(tree_.leader).value_or(sys::Process()).start;
    if (cgroup_) tree_.cgroup = &*cgroup_;
  }

  // Until no child is left. SIGTERM and SIGCHLD are blocked.
  int run(const sigset_t& signals) {
    while (reap()) {
      const int signal = next(signals);
      if (signal == SIGTERM && !deadline_) {
        deadline_.emplace(kGrace);
        (void)sys::signal_group(task_, SIGTERM);
      }
      if (!deadline_) continue;
      const bool late = deadline_->passed();
      // With the task itself gone nobody waits for the rest to end in order.
      if (late || (code_ && reap())) (void)sys::kill_tree(tree_);
      // A process in the kernel's hands does not die yet; it is killed again later.
      if (late) deadline_.emplace(std::chrono::seconds(1));
    }
    return code_.value_or(kCrashExitCode);
  }

 private:
  // False: no child is left.
  bool reap() {
    for (;;) {
      int status = 0;
      const pid_t pid = ::waitpid(-1, &status, WNOHANG);
      if (pid == 0) return true;
      if (pid < 0) return errno == EINTR;
      if (pid == task_) {
        code_ = shell_code(status);
        record_exit(*code_);
      }
    }
  }

  int next(const sigset_t& signals) const {
    if (!deadline_) return ::sigwaitinfo(&signals, nullptr);
    const std::chrono::nanoseconds left = std::max(deadline_->left(), std::chrono::milliseconds(1));
    const auto seconds = std::chrono::floor<std::chrono::seconds>(left);
    const timespec limit{seconds.count(), (left - seconds).count()};
    return ::sigtimedwait(&signals, nullptr, &limit);
  }

  pid_t task_;
  std::optional<sys::Cgroup> cgroup_;
  sys::ProcessTree tree_;
  std::optional<int> code_;
  std::optional<Deadline> deadline_;
};

}  // namespace

void supervise(int argc, char** argv) {
  if (argc < 4) std::_Exit(2);
  const std::string cwd = argv[0], cgroup = argv[1];
  const int namespaces = parse_number<int>(argv[2]).value_or(0);
  sys::SpawnPlan plan;
  plan.argv.assign(argv + 3, argv + argc);
  for (int fd = kDirectoryFd; fd < kFirstNamespaceFd + namespaces; ++fd) keep_from_task(fd);

  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::sigaddset(&signals, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  if (auto subreaper = sys::become_subreaper(); !subreaper) refuse(subreaper.error().message);
  if (!wait_for_go()) std::_Exit(0);

  // Opened before the root changes: the cgroup's path means nothing in the main container.
  UniqueFd entered;
  if (!cgroup.empty()) {
    if (auto fd = sys::Cgroup::at(cgroup).enter(plan)) entered = std::move(*fd);
  }
  enter_namespaces(namespaces);
  for (char** entry = environ; *entry != nullptr; ++entry) plan.env.emplace_back(*entry);
  plan.cwd = cwd;
  plan.fds = {{1, 1}, {2, 2}};
  struct stat st{};
  if (!cwd.empty() && (::stat(cwd.c_str(), &st) < 0 || !S_ISDIR(st.st_mode))) {
    refuse("working directory " + cwd + ": " + (errno == ENOENT ? "does not exist" : "not a directory"));
  }
  constexpr const char* kUsualPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
  const auto program = sys::find_program(plan.argv[0], variable("PATH", kUsualPath));
  if (!program) end_unrunnable(plan.argv[0] + ": not found", kNotFound);
  plan.program = *program;
  auto child = sys::spawn(plan);
  if (!child) {
    const int e = child.error().sys_errno;
    if (e == ENOENT) end_unrunnable(child.error().message, kNotFound);
    if (e == EACCES || e == ENOEXEC || e == EISDIR || e == ENOTDIR) {
      end_unrunnable(child.error().message, kNotExecutable);
    }
    refuse(child.error().message);
  }
  ::close(kReportFd);
  Supervisor supervisor(child->pid, child->in_cgroup && namespaces == 0 ? cgroup : "");
  std::_Exit(supervisor.run(signals));
}

}  // namespace osb::taskexecutor
