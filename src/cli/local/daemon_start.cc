#include "cli/local/daemon_start.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include "base/parse_number.h"
#include "cli/local/list_directory.h"
#include "cli/terminal/signal_fd.h"
#include "sys/pidfd.h"
#include "sys/spawn.h"
#include "sys/syscall.h"
#include "sys/text_file.h"

namespace osb::cli {
namespace {

constexpr std::string_view kReady = "is ready";
constexpr std::chrono::seconds kPatience(20);
constexpr std::size_t kLogHead = 1 << 20;  // "is ready" comes early; a log may become long

std::vector<std::string> environment() {
  std::vector<std::string> out;
  for (char** each = environ; *each != nullptr; ++each) {
    if (!std::string_view(*each).starts_with("OPENSANDBOX_")) out.emplace_back(*each);
  }
  return out;
}

std::string last_lines(const std::string& text) {
  std::size_t from = text.size();
  for (int lines = 0; from > 0 && lines < 6; ++lines) {
    const std::size_t end = text.rfind('\n', from - 1);
    from = end == std::string::npos ? 0 : end;
  }
  std::string out = text.substr(from);
  while (!out.empty() && out.back() == '\n') out.pop_back();
  return out.empty() ? "it said nothing" : out;
}

// Tells when a log changes, from the moment it is made.
Result<UniqueFd> watch_log(const std::filesystem::path& log) {
  UniqueFd watch(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (watch.get() < 0 || ::inotify_add_watch(watch.get(), log.c_str(), IN_MODIFY) < 0) {
    return sys::from_errno("watch " + log.string(), errno);
  }
  return watch;
}

Result<std::string> read_head(const std::filesystem::path& file) {
  const UniqueFd in(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (in.get() < 0) return sys::from_errno("read " + file.string(), errno);
  std::string out(kLogHead, '\0');
  std::size_t size = 0;
  while (size < out.size()) {
    const ssize_t got = ::read(in.get(), out.data() + size, out.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return sys::from_errno("read " + file.string(), errno);
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  out.resize(size);
  return out;
}

// True: it is ready. False: it has ended before.
Result<bool> wait_ready(int pidfd, const UniqueFd& watch, const std::filesystem::path& log, SignalFd& signals) {
  std::array<pollfd, 3> waits{pollfd{watch.get(), POLLIN, 0}, pollfd{pidfd, POLLIN, 0},
                              pollfd{signals.fd(), POLLIN, 0}};
  for (bool looked = false;; looked = true) {
    while (::poll(waits.data(), waits.size(), looked ? -1 : 0) < 0 && errno == EINTR) {
    }
    if (signals.take()) return fail(Code::Cancelled, "interrupted");
    std::array<char, 4096> events;
    while (::read(watch.get(), events.data(), events.size()) > 0) {
    }
    const auto text = read_head(log);
    if (!text) return Failure(text.error());
    if (waits[1].revents != 0) return false;
    if (text->find(kReady) != std::string::npos) return true;
  }
}

// Without privilege for good: nothing that it runs can get any, setuid programs included. The limits are those of a
// thread, which starts the program and ends.
Result<sys::Child> spawn_without_privilege(sys::SpawnPlan& plan, uid_t id) {
  plan.uid = id;
  plan.gid = id;
  Result<sys::Child> child = fail(Code::Internal, "no thread");
  std::thread([&] {
    for (unsigned long capability = 0; ::prctl(PR_CAPBSET_DROP, capability) == 0; ++capability) {
    }
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1UL, 0UL, 0UL, 0UL) != 0) {
      child = sys::from_errno("give up privileges", errno);
    } else {
      child = sys::spawn(plan);
    }
  }).join();
  return child;
}

}  // namespace

Result<void> start_daemon(const DaemonPlan& daemon, const std::function<Result<void>(DaemonProcess)>& started) {
  SignalFd signals({SIGINT, SIGTERM, SIGHUP});
  (void)::rename(daemon.log.c_str(), (daemon.log.string() + ".old").c_str());
  const UniqueFd out(::open(daemon.log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600));
  if (out.get() < 0) return sys::from_errno("write " + daemon.log.string(), errno);
  const auto watch = watch_log(daemon.log);
  if (!watch) return Failure(watch.error());
  sys::SpawnPlan plan;
  plan.program = daemon.program;
  plan.argv = {daemon.program};
  plan.argv.insert(plan.argv.end(), daemon.arguments.begin(), daemon.arguments.end());
  plan.env = environment();
  plan.cwd = daemon.log.parent_path();
  plan.fds = {{1, out.get()}, {2, out.get()}};
  plan.group = sys::SpawnPlan::Group::NewSession;
  auto child = daemon.id != 0 ? spawn_without_privilege(plan, daemon.id) : sys::spawn(plan);
  if (!child) return Failure(child.error());
  if (auto ok = started(identify_daemon(child->pid)); !ok) return ok;
  const auto ready = wait_ready(child->pidfd.get(), *watch, daemon.log, signals);
  if (!ready) return Failure(ready.error());
  if (*ready) return {};
  const auto status = sys::reap(*child);
  return fail(Code::Unavailable, daemon.program.filename().string() + " did not start (status " +
                                     std::to_string(status ? status->code : -1) + "):\n" +
                                     last_lines(read_head(daemon.log).value_or("")));
}

Result<bool> wait_for_daemon(const DaemonProcess& process, const std::filesystem::path& log) {
  SignalFd signals({SIGINT, SIGTERM, SIGHUP});
  const auto watch = watch_log(log);
  if (!watch) return Failure(watch.error());
  const auto pidfd = sys::open_pidfd(process.pid);
  if (!pidfd || !process.alive()) return false;
  return wait_ready(pidfd->get(), *watch, log, signals);
}

std::optional<DaemonProcess> find_daemon(const std::string& program, const std::filesystem::path& config) {
  // "/path/sandboxd\0--config\0/dir/sandboxd.toml\0..", as start_daemon() starts it
  const std::string wanted = std::string("/") + program + '\0' + "--config" + '\0' + config.string() + '\0';
  struct stat here{};
  if (::stat(config.c_str(), &here) != 0) return std::nullopt;
  for (const std::filesystem::path& each : list_directory("/proc")) {
    const pid_t pid = parse_number<pid_t>(each.filename().native()).value_or(0);
    if (pid <= 0) continue;
    const auto line = sys::read_text(each / "cmdline");
    if (!line) continue;
    const std::size_t at = line->find(wanted);
    if (at == std::string::npos || at > line->find('\0')) continue;
    // A container may have a service at the same path.
    struct stat there{};
    if (::stat((each / "root" / config.relative_path()).c_str(), &there) != 0 || there.st_dev != here.st_dev ||
        there.st_ino != here.st_ino) {
      continue;
    }
    const DaemonProcess found = identify_daemon(pid);
    if (found.alive()) return found;
  }
  return std::nullopt;
}

void stop_daemon(const DaemonProcess& process) {
  auto pidfd = sys::open_pidfd(process.pid);
  if (!pidfd || !process.alive()) return;  // the handle came first: alive() speaks about what it holds
  (void)sys::send_signal(pidfd->get(), SIGTERM);
  if (sys::wait_ended(pidfd->get(), kPatience)) return;
  (void)sys::send_signal(pidfd->get(), SIGKILL);
  (void)sys::wait_ended(pidfd->get(), kPatience);
}

}  // namespace osb::cli
