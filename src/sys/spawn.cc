#include "sys/spawn.h"

#include <algorithm>
#include <charconv>
#include <climits>
#include <cstring>
#include <dirent.h>
#include <linux/close_range.h>
#include <mutex>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sys/clone.h"
#include "sys/openat2.h"
#include "sys/syscall.h"

namespace osb::sys {
namespace {

enum class Step : int { None, Cgroup, OomScore, Session, Descriptors, Terminal, Groups, Gid, Uid, Cwd, Exec };

struct Report {
  Step step = Step::None;
  int error = 0;
};

struct Redirect {
  int target;
  int source;
};

// All that the child reads. Pointers go into the plan and into PreparedExec, which outlive the child's use of them
// because the parent sleeps until exec.
struct ChildArgument {
  const char* program;
  int program_fd;
  char* const* argv;
  char* const* envp;
  const char* cwd;
  Redirect* redirects;
  std::size_t redirect_count;
  int first_free;  // above every target: where descriptors are safe from dup3
  SpawnPlan::Group group;
  int controlling_tty;
  const gid_t* groups;  // with set_groups
  std::size_t group_count;
  bool set_groups, set_gid, set_uid;
  gid_t gid;
  uid_t uid;
  const char* const* cgroup_procs;
  std::size_t cgroup_count;
  int cgroup_tasks;
  bool joined;  // written by the child, read by the parent
  const char* oom_score_adj;
  std::size_t oom_score_size;
  int report;
};

[[noreturn]] OSB_IN_CHILD void give_up(const ChildArgument& a, Step step) {
  const Report report{step, errno};
  raw(SYS_write, a.report, &report, sizeof report);
  for (;;) raw(SYS_exit_group, 127);
}

OSB_IN_CHILD bool write_file(const char* path, const char* text, std::size_t size) {
  const long fd = raw(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CLOEXEC, 0);
  if (fd < 0) return false;
  const bool written = raw(SYS_write, fd, text, size) == static_cast<long>(size);
  const int saved = errno;
  raw(SYS_close, fd);
  errno = saved;
  return written;
}

// Zero is SIG_DFL, no flags, an empty mask, in the kernel's layout of every architecture.
OSB_IN_CHILD void reset_signal_handlers() {
  const unsigned long action[8] = {};
  for (int sig = 1; sig <= 64; ++sig) {
    raw(SYS_rt_sigaction, sig, action, nullptr, sizeof(KernelSigset));  // KILL and STOP answer EINVAL
  }
}

OSB_IN_CHILD bool move_above(int& fd, int first_free) {
  if (fd >= first_free) return true;
  const long moved = raw(SYS_fcntl, fd, F_DUPFD_CLOEXEC, first_free);
  if (moved < 0) return false;
  fd = static_cast<int>(moved);
  return true;
}

// For kernels before 5.11 and filters that refuse close_range.
OSB_IN_CHILD bool mark_cloexec_one_by_one() {
  const long dir = raw(SYS_openat, AT_FDCWD, "/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (dir < 0) return false;
  alignas(8) char buffer[4096];
  long size;
  while ((size = raw(SYS_getdents64, dir, buffer, sizeof buffer)) > 0) {
    for (long at = 0; at < size;) {
      const auto* entry = reinterpret_cast<const struct dirent64*>(buffer + at);
      int fd = 0;
      const char* digit = entry->d_name;
      for (; *digit >= '0' && *digit <= '9'; ++digit) fd = fd * 10 + (*digit - '0');
      if (digit != entry->d_name) raw(SYS_fcntl, fd, F_SETFD, FD_CLOEXEC);
      at += entry->d_reclen;
    }
  }
  raw(SYS_close, dir);
  return size == 0;
}

// Sources that a target would overwrite move above all targets first; dup3 then clears CLOEXEC in the copies, which
// dup2(n, n) would not.
OSB_IN_CHILD bool arrange_descriptors(ChildArgument& a) {
  for (std::size_t i = 0; i < a.redirect_count; ++i) {
    if (!move_above(a.redirects[i].source, a.first_free)) return false;
  }
  if (raw(SYS_close_range, 0U, ~0U, CLOSE_RANGE_CLOEXEC) != 0 && !mark_cloexec_one_by_one()) return false;
  for (std::size_t i = 0; i < a.redirect_count; ++i) {
    if (raw(SYS_dup3, a.redirects[i].source, a.redirects[i].target, 0) < 0) return false;
  }
  return true;
}

// Descriptors of the parent are open until exec: a link of /proc to one of them (/proc/self/fd/4) would lead to where
// only the parent may go. Kernels and filters without openat2 know no such rule.
OSB_IN_CHILD bool enter(const char* path) {
  const int directory = try_openat2(AT_FDCWD, path, O_PATH | O_DIRECTORY, RESOLVE_NO_MAGICLINKS);
  if (directory >= 0) return raw(SYS_fchdir, directory) == 0;
  return (errno == ENOSYS || errno == EPERM) && raw(SYS_chdir, path) == 0;
}

OSB_IN_CHILD void run_in_child(void* argument) {
  ChildArgument& a = *static_cast<ChildArgument*>(argument);
  if (!move_above(a.report, a.first_free)) give_up(a, Step::Descriptors);
  if (a.program_fd >= 0 && !move_above(a.program_fd, a.first_free)) give_up(a, Step::Descriptors);
  reset_signal_handlers();
  for (std::size_t i = 0; i < a.cgroup_count; ++i) {
    if (!write_file(a.cgroup_procs[i], "0", 1)) give_up(a, Step::Cgroup);
  }
  if (a.cgroup_tasks >= 0) a.joined = raw(SYS_write, a.cgroup_tasks, "0", 1) == 1;
  if (a.oom_score_size != 0 && !write_file("/proc/self/oom_score_adj", a.oom_score_adj, a.oom_score_size)) {
    give_up(a, Step::OomScore);
  }
  if (a.group == SpawnPlan::Group::NewSession && raw(SYS_setsid) < 0) give_up(a, Step::Session);
  if (a.group == SpawnPlan::Group::NewGroup && raw(SYS_setpgid, 0, 0) < 0) give_up(a, Step::Session);
  if (!arrange_descriptors(a)) give_up(a, Step::Descriptors);
  if (a.controlling_tty >= 0 && raw(SYS_ioctl, a.controlling_tty, TIOCSCTTY, 0) < 0) give_up(a, Step::Terminal);
  // Raw calls: glibc's would ask all threads of the parent to follow.
  if (a.set_groups && raw(SYS_setgroups, a.group_count, a.groups) < 0) give_up(a, Step::Groups);
  if (a.set_gid && raw(SYS_setresgid, a.gid, a.gid, a.gid) < 0) give_up(a, Step::Gid);
  if (a.set_uid && raw(SYS_setresuid, a.uid, a.uid, a.uid) < 0) give_up(a, Step::Uid);
  if (a.cwd != nullptr && !enter(a.cwd)) give_up(a, Step::Cwd);
  const KernelSigset none = 0;
  raw(SYS_rt_sigprocmask, SIG_SETMASK, &none, nullptr, sizeof none);
  if (a.program_fd >= 0) raw(SYS_execveat, a.program_fd, "", a.argv, a.envp, AT_EMPTY_PATH);
  raw(SYS_execve, a.program, a.argv, a.envp);  // the interpreter of a script finds it by its name
  give_up(a, Step::Exec);
}

std::vector<char*> pointers_to(const std::vector<std::string>& strings) {
  std::vector<char*> out;
  out.reserve(strings.size() + 1);
  for (const std::string& s : strings) out.push_back(const_cast<char*>(s.c_str()));
  out.push_back(nullptr);
  return out;
}

// The child's memory: everything is laid out here, before clone, and freed after exec.
class PreparedExec {
 public:
  PreparedExec(const SpawnPlan& plan, int report, int dev_null)
      : argv_(pointers_to(plan.argv)), envp_(pointers_to(plan.env)), cgroups_(pointers_to(plan.cgroup_procs)) {
    int highest = 2;
    for (const auto& [target, source] : plan.fds) {
      highest = std::max(highest, target);
      redirects_.push_back({target, source});
    }
    for (int fd = 0; fd < 3; ++fd) {
      if (!names(plan, fd)) redirects_.push_back({fd, dev_null});
    }
    if (plan.oom_score_adj) oom_score_adj_ = std::to_string(*plan.oom_score_adj);
    const bool drop_groups = plan.uid && *plan.uid != ::geteuid() && !plan.groups;
    argument_ = {
        .program = plan.program.c_str(),
        .program_fd = plan.program_fd,
        .argv = argv_.data(),
        .envp = envp_.data(),
        .cwd = plan.cwd.empty() ? nullptr : plan.cwd.c_str(),
        .redirects = redirects_.data(),
        .redirect_count = redirects_.size(),
        .first_free = highest + 1,
        .group = plan.group,
        .controlling_tty = plan.controlling_tty,
        .groups = plan.groups ? plan.groups->data() : nullptr,
        .group_count = plan.groups ? plan.groups->size() : 0,
        .set_groups = plan.groups || drop_groups,
        .set_gid = plan.gid.has_value(),
        .set_uid = plan.uid.has_value(),
        .gid = plan.gid.value_or(0),
        .uid = plan.uid.value_or(0),
        .cgroup_procs = cgroups_.data(),
        .cgroup_count = plan.cgroup_procs.size(),
        .cgroup_tasks = plan.cgroup_tasks_fd,
        .joined = false,
        .oom_score_adj = oom_score_adj_.c_str(),
        .oom_score_size = oom_score_adj_.size(),
        .report = report,
    };
  }

  static bool names(const SpawnPlan& plan, int fd) {
    return std::ranges::any_of(plan.fds, [fd](const auto& entry) { return entry.first == fd; });
  }

  void* argument() { return &argument_; }
  bool joined() const { return argument_.joined; }

 private:
  std::vector<char*> argv_, envp_, cgroups_;
  std::vector<Redirect> redirects_;
  std::string oom_score_adj_;
  ChildArgument argument_;
};

// "Dumpable" belongs to the memory, which the child shares: its change of user turns the flag off for us too, and with
// it the ownership of our files in /proc. Put back afterwards, one such spawn at a time: in between the flag is what
// keeps the other user from attaching to a process that has our memory.
class DumpableKept {
 public:
  explicit DumpableKept(bool changes_user) {
    if (!changes_user) return;
    lock_ = std::unique_lock(mutex_);
    before_ = ::prctl(PR_GET_DUMPABLE);
  }
  ~DumpableKept() {
    if (before_ == 1) ::prctl(PR_SET_DUMPABLE, 1);
  }
  DumpableKept(const DumpableKept&) = delete;
  DumpableKept& operator=(const DumpableKept&) = delete;

 private:
  static inline std::mutex mutex_;
  std::unique_lock<std::mutex> lock_;
  int before_ = -1;
};

std::string describe(Step step, const SpawnPlan& plan) {
  switch (step) {
    case Step::Cgroup:
      return "join cgroup";
    case Step::OomScore:
      return "set oom_score_adj";
    case Step::Session:
      return plan.group == SpawnPlan::Group::NewSession ? "setsid" : "setpgid";
    case Step::Descriptors:
      return "arrange descriptors";
    case Step::Terminal:
      return "acquire controlling terminal";
    case Step::Groups:
      return "setgroups";
    case Step::Gid:
      return "switch to group " + std::to_string(plan.gid.value_or(0));
    case Step::Uid:
      return "switch to user " + std::to_string(plan.uid.value_or(0));
    case Step::Cwd:
      return "chdir " + plan.cwd;
    case Step::None:
    case Step::Exec:
      break;
  }
  return "exec";
}

Result<Child> start_child(const SpawnPlan& plan, PreparedExec& exec) {
  VforkOptions options{.clone_flags = static_cast<std::uint64_t>(plan.namespaces), .exit_signal = SIGCHLD};
  if (plan.cgroup_fd >= 0) {
    options.cgroup_fd = plan.cgroup_fd;
    auto born = vfork_child(&run_in_child, exec.argument(), options);
    // No room for a process is no fault of the cgroup. Everything else (an old kernel, a filter, a cgroup that takes no
    // processes) is: the child goes without.
    if (born || born.error().sys_errno == EAGAIN || born.error().sys_errno == ENOMEM) return born;
  }
  options.plain = true;
  return vfork_child(&run_in_child, exec.argument(), options);
}

// /dev/null, for a standard descriptor that the plan does not name.
Result<UniqueFd> open_nothing() {
  auto null = open_at(AT_FDCWD, "/dev/null", O_RDWR);
  if (null || null.error().sys_errno == EMFILE || null.error().sys_errno == ENFILE) return null;
  // An image without devices. Not a memory file: it would keep all that is written.
  auto pipe = make_pipe();
  if (!pipe) return Failure(pipe.error());
  return std::move(pipe->read);
}

Report read_report(int fd) {
  Report report;
  ssize_t got;
  do got = ::read(fd, &report, sizeof report);
  while (got < 0 && errno == EINTR);
  return got == sizeof report ? report : Report{};
}

Result<void> check(const SpawnPlan& plan) {
  if (plan.program.empty() || plan.argv.empty()) return fail(Code::InvalidRequest, "spawn: no program");
  const auto broken = [](const std::string& s) { return s.find('\0') != std::string::npos; };
  if (broken(plan.program) || broken(plan.cwd) || std::ranges::any_of(plan.argv, broken) ||
      std::ranges::any_of(plan.env, broken)) {
    return fail(Code::InvalidRequest,
                "spawn " + plan.program + ": a NUL byte in the program, arguments or environment");
  }
  for (const auto& [target, source] : plan.fds) {
    if (target < 0 || source < 0)
      return fail(Code::InvalidRequest, "spawn " + plan.program + ": a negative descriptor");
  }
  return {};
}

}  // namespace

Result<Child> spawn(const SpawnPlan& plan) {
  if (auto ok = check(plan); !ok) return Failure(ok.error());
  UniqueFd dev_null;
  if (!PreparedExec::names(plan, 0) || !PreparedExec::names(plan, 1) || !PreparedExec::names(plan, 2)) {
    auto opened = open_nothing();
    if (!opened) return with_context("spawn " + plan.program, opened.error());
    dev_null = std::move(*opened);
  }
  auto report = make_pipe();  // carries one Report; a successful exec closes it
  if (!report) return with_context("spawn " + plan.program, report.error());
  PreparedExec exec(plan, report->write.get(), dev_null.get());

  Result<Child> child;
  {
    const DumpableKept dumpable(plan.uid.has_value() || plan.gid.has_value());
    child = start_child(plan, exec);
  }
  if (!child) return with_context("spawn " + plan.program, child.error());
  child->in_cgroup = child->in_cgroup || exec.joined();
  report->write.reset();
  const Report failed = read_report(report->read.get());
  if (failed.step == Step::None) return child;
  (void)reap(*child);  // an error means that it is reaped already
  if (failed.step == Step::Exec) return from_errno("exec " + plan.program, failed.error);
  return from_errno("spawn " + plan.program + ": " + describe(failed.step, plan), failed.error);
}

std::optional<std::string> find_program(const std::string& name, std::string_view path) {
  if (name.empty()) return std::nullopt;
  if (name.find('/') != std::string::npos) return name;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    const std::string_view dir = path.substr(begin, end - begin);
    // An empty entry means the current directory, as in every shell.
    std::string candidate = dir.empty() ? "./" + name : std::string(dir) + "/" + name;
    struct stat st{};
    if (::stat(candidate.c_str(), &st) == 0 && S_ISREG(st.st_mode) && ::access(candidate.c_str(), X_OK) == 0) {
      return candidate;
    }
    begin = end + 1;
  }
  return std::nullopt;
}

}  // namespace osb::sys
