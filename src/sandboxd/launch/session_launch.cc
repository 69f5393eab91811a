#include "sandboxd/launch/session_launch.h"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/keyctl.h>
#include <linux/sched.h>
#include <memory>
#include <optional>
#include <sched.h>
#include <signal.h>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

#include "base/parse_number.h"
#include "kernel/capabilities.h"
#include "sandboxd/launch/launch_child.h"
#include "sandboxd/launch/launch_host.h"
#include "sys/clone.h"
#include "sys/syscall.h"
#include "sys/text_file.h"
#include "sys/write_all.h"

namespace osb::sandboxd {
namespace {

using sys::raw;

constexpr int kConnectionFd = 3;
constexpr int kFilterFd = 4;
constexpr int kLimitFd = 5;
constexpr int kFirstFree = 6;
constexpr std::size_t kStackSize = 32 * 1024;
constexpr unsigned long kPlain = MS_NOSUID | MS_NODEV | MS_NOEXEC;
// Not the user namespace: the mounts must be made by the host's root, else the kernel refuses a /proc beside one whose
// parts are hidden.
constexpr int kJoined = CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP | CLONE_NEWNS;

struct SessionChild {
  const char* doing = "start";
  const char* thing = "";
  int error = 0;
  bool at_exec = false;

  int sandbox;
  const int* v1_tasks;
  std::size_t v1_count;
  const ChildMask* masks;
  std::size_t mask_count;
  std::array<struct rlimit64, RLIM_NLIMITS> limits;
  const char* oom_score;
  std::size_t oom_score_size;
  struct clone_args first_process;  // how it is cloned
  int connection, filter, program;
  int userns_sysctl;  // of the host; -1: the sandbox's limit of user namespaces is not handed over
  int limit;
  char* const* argv;
  char* const* envp;
};

[[noreturn]] OSB_IN_CHILD void give_up(SessionChild& child) {
  child.error = errno;
  for (;;) raw(SYS_exit_group, 127);
}

OSB_IN_CHILD long check(SessionChild& child, long result) {
  if (result < 0) give_up(child);
  return result;
}

OSB_IN_CHILD void begin(SessionChild& child, const char* doing, const char* thing = "") {
  child.doing = doing;
  child.thing = thing;
}

// The new namespace's processes, with the same parts hidden as in the sandbox's own.
OSB_IN_CHILD void mount_proc(SessionChild& child) {
  begin(child, "mount", "/proc");
  check(child, raw(SYS_mount, "proc", "/proc", "proc", kPlain, nullptr));
  for (std::size_t i = 0; i < child.mask_count; ++i) {
    const ChildMask& mask = child.masks[i];
    if (!mask.in_proc) continue;
    begin(child, "hide", mask.path);
    if (mask.kind == ChildMask::EmptyDirectory) {
      check(child, raw(SYS_mount, "none", mask.path, "tmpfs", kPlain | MS_RDONLY, "size=4k,nr_inodes=2,mode=555"));
    } else if (mask.kind == ChildMask::NullFile) {
      check(child, raw(SYS_mount, "/dev/null", mask.path, nullptr, MS_BIND, nullptr));
    } else {
      check(child, raw(SYS_mount, mask.path, mask.path, nullptr, MS_BIND | MS_REC, nullptr));
      check(child, raw(SYS_mount, nullptr, mask.path, nullptr, kPlain | MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr));
    }
  }
}

OSB_IN_CHILD int move_above(SessionChild& child, int fd) {
  return static_cast<int>(check(child, raw(SYS_fcntl, fd, F_DUPFD_CLOEXEC, kFirstFree)));
}

OSB_IN_CHILD void arrange_descriptors(SessionChild& child) {
  begin(child, "arrange descriptors");
  const int null =
      move_above(child, static_cast<int>(check(child, raw(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC, 0))));
  const int connection = move_above(child, child.connection);
  const int filter = move_above(child, child.filter);
  const int limit = child.limit < 0 ? -1 : move_above(child, child.limit);
  child.program = move_above(child, child.program);
  check(child, raw(SYS_close_range, 0U, ~0U, CLOSE_RANGE_CLOEXEC));
  for (int fd = 0; fd < 3; ++fd) check(child, raw(SYS_dup3, null, fd, 0));
  check(child, raw(SYS_dup3, connection, kConnectionFd, 0));
  check(child, raw(SYS_dup3, filter, kFilterFd, 0));
  if (limit >= 0) check(child, raw(SYS_dup3, limit, kLimitFd, 0));
}

// PID 1 of the new PID namespace.
OSB_IN_CHILD void run_first_process(void* argument) {
  SessionChild& child = *static_cast<SessionChild*>(argument);
  begin(child, "start a session");
  check(child, raw(SYS_setsid));
  begin(child, "join the sandbox's namespaces");
  check(child, raw(SYS_setns, child.sandbox, kJoined));
  begin(child, "copy the sandbox's mounts");
  check(child, raw(SYS_unshare, CLONE_NEWNS));
  check(child, raw(SYS_mount, nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr));
  mount_proc(child);
  for (int i = 0; i < RLIM_NLIMITS; ++i) {
    if (i == RLIMIT_NOFILE) continue;
    begin(child, "set a ulimit");
    check(child, raw(SYS_prlimit64, 0, i, &child.limits[static_cast<std::size_t>(i)], nullptr));
  }
  begin(child, "make a session keyring");
  if (raw(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, nullptr) < 0 && errno != ENOSYS) give_up(child);
  // From here on we have no rights on the host.
  begin(child, "join the user namespace");
  check(child, raw(SYS_setns, child.sandbox, CLONE_NEWUSER));
  // The limit is that of the namespace in which the file is opened. Writing takes CAP_SYS_RESOURCE there.
  begin(child, "open max_user_namespaces");
  child.limit = child.userns_sysctl < 0
                    ? -1
                    : static_cast<int>(check(
                          child, raw(SYS_openat, child.userns_sysctl, "max_user_namespaces", O_WRONLY | O_CLOEXEC, 0)));
  begin(child, "switch user");
  check(child, raw(SYS_setgroups, 0, nullptr));
  check(child, raw(SYS_setresgid, 0, 0, 0));
  check(child, raw(SYS_setresuid, 0, 0, 0));
  arrange_descriptors(child);
  begin(child, "set a ulimit");
  check(child, raw(SYS_prlimit64, 0, RLIMIT_NOFILE, &child.limits[RLIMIT_NOFILE], nullptr));
  const std::uint64_t action[8] = {};
  for (int signal = 1; signal <= 64; ++signal) raw(SYS_rt_sigaction, signal, action, nullptr, sizeof(std::uint64_t));
  raw(SYS_rt_sigprocmask, SIG_SETMASK, action, nullptr, sizeof(std::uint64_t));
  begin(child, "exec");
  child.at_exec = true;
  raw(SYS_execveat, child.program, "", child.argv, child.envp, AT_EMPTY_PATH);
  give_up(child);
}

// In the sandbox's PID namespace: only a process that is in one can make another below it. When this one has ended, the
// first process is a child of the sandbox's PID 1, which reaps it.
OSB_IN_CHILD void run_parent_of_session(void* argument) {
  SessionChild& child = *static_cast<SessionChild*>(argument);
  begin(child, "join cgroup");
  for (std::size_t i = 0; i < child.v1_count; ++i) check(child, raw(SYS_write, child.v1_tasks[i], "0", 1));
  begin(child, "set oom_score_adj");
  const long score = check(child, raw(SYS_openat, AT_FDCWD, "/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC, 0));
  check(child, raw(SYS_write, score, child.oom_score, child.oom_score_size));
  raw(SYS_close, score);
  begin(child, "make a PID namespace");
  const long pid = sys::call_clone3(child.first_process, &run_first_process, &child);
  if (pid < 0) {
    errno = static_cast<int>(-pid);
    give_up(child);
  }
  for (;;) raw(SYS_exit_group, 0);
}

Result<UniqueFd> filter_file(std::span<const sock_filter> program) {
  UniqueFd file(::memfd_create("seccomp", MFD_CLOEXEC));
  if (!file) return sys::from_errno("memfd_create", errno);
  const std::string_view bytes(reinterpret_cast<const char*>(program.data()), program.size_bytes());
  if (auto written = sys::write_all_at(file.get(), 0, bytes, "seccomp program"); !written) {
    return Failure(written.error());
  }
  return file;
}

// "Max open files            1024                 4096                 files": a line for each, in the order of their
// numbers. prlimit(2) would ask for a capability that sandboxd gives up.
Result<void> read_limits(pid_t pid, std::array<struct rlimit64, RLIM_NLIMITS>& out) {
  constexpr std::size_t kName = 26, kColumn = 21;
  const std::string path = "/proc/" + std::to_string(pid) + "/limits";
  const auto text = sys::read_text(path);
  if (!text) return Failure(text.error());
  std::string_view rest = *text;
  const auto next_line = [&rest] {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    return line;
  };
  const auto number_at = [](std::string_view line, std::size_t at) -> std::optional<rlim64_t> {
    if (line.size() < at) return std::nullopt;
    const std::string_view word = line.substr(at, line.find(' ', at) - at);
    if (word == "unlimited") return RLIM64_INFINITY;
    return parse_number<rlim64_t>(word);
  };
  next_line();
  for (struct rlimit64& limit : out) {
    const std::string_view line = next_line();
    const auto soft = number_at(line, kName), hard = number_at(line, kName + kColumn);
    if (!soft || !hard) return fail(Code::Internal, path + ": not the lines that were expected");
    limit = {*soft, *hard};
  }
  return {};
}

}  // namespace

Result<void> launch_session(const SessionLaunchPlan& plan) {
  const Result<LaunchHost>& host = launch_host();
  if (!host) return Failure(host.error());
  const auto capabilities = kernel::capabilities_of(plan.pid);
  if (!capabilities) return Failure(capabilities.error());
  // Ours may protect sandboxd from the kernel's killer.
  const auto oom_score = sys::read_text("/proc/" + std::to_string(plan.pid) + "/oom_score_adj");
  if (!oom_score) return Failure(oom_score.error());
  auto filter = filter_file(plan.seccomp);
  if (!filter) return Failure(filter.error());
  SessionChild child{};
  if (auto read = read_limits(plan.pid, child.limits); !read) return Failure(read.error());
  std::string arguments[] = {"execd", "--isolated-session", "prepared", std::to_string(capabilities->bounding),
                             plan.nested_user_namespaces ? "" : "limited"};
  char* argv[] = {arguments[0].data(), arguments[1].data(), arguments[2].data(),
                  arguments[3].data(), arguments[4].data(), nullptr};
  char* envp[] = {nullptr};
  child.doing = "start";
  child.thing = "";
  child.sandbox = plan.sandbox;
  child.v1_tasks = plan.v1_tasks.data();
  child.v1_count = plan.v1_tasks.size();
  child.masks = host->masks.data();
  child.mask_count = host->masks.size();
  child.oom_score = oom_score->data();
  child.oom_score_size = oom_score->size();
  child.connection = plan.connection;
  child.filter = filter->get();
  child.program = plan.program;
  child.userns_sysctl = plan.nested_user_namespaces ? -1 : host->userns_sysctl.get();
  child.argv = argv;
  child.envp = envp;
  const auto stack = std::make_unique_for_overwrite<std::byte[]>(kStackSize);
  child.first_process.flags = CLONE_NEWPID | CLONE_VM | CLONE_VFORK | CLONE_CLEAR_SIGHAND;
  child.first_process.stack = (reinterpret_cast<std::uintptr_t>(stack.get()) + 15) & ~std::uintptr_t{15};
  child.first_process.stack_size = kStackSize - 16;
  Result<sys::Child> out = fail(Code::Internal, "not started");
  // A thread of its own: which PID namespace its children are in stays with it.
  std::thread thread([&] {
    if (::setns(plan.sandbox, CLONE_NEWPID) < 0) {
      out = sys::from_errno("join the sandbox's PID namespace", errno);
      return;
    }
    out = sys::vfork_child(&run_parent_of_session, &child, {.exit_signal = 0, .cgroup_fd = plan.v2_cgroup});
  });
  thread.join();
  if (!out) return Failure(out.error());
  (void)sys::reap(*out);
  if (child.error == 0 && child.at_exec) return {};
  std::string what = std::string(child.doing) + (*child.thing == '\0' ? "" : " ") + child.thing;
  if (child.error == 0) return fail(Code::Internal, what + ": the process was killed");
  return sys::from_errno(what, child.error);
}

}  // namespace osb::sandboxd
