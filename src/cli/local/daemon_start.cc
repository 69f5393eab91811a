#include "cli/local/daemon_start.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "cli/terminal/signal_fd.h"
#include "sys/pidfd.h"
#include "sys/process_tree.h"
#include "sys/spawn.h"
#include "sys/syscall.h"
#include "sys/text_file.h"

namespace osb::cli {
namespace {

constexpr std::string_view kReady = "is ready";
constexpr std::chrono::seconds kPatience(20);

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

}  // namespace

Result<void> start_daemon(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                          const std::filesystem::path& log, const std::function<Result<void>(DaemonProcess)>& started) {
  SignalFd signals({SIGINT, SIGTERM, SIGHUP});
  const UniqueFd out(::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600));
  if (out.get() < 0) return sys::from_errno("write " + log.string(), errno);
  const UniqueFd watch(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (watch.get() < 0 || ::inotify_add_watch(watch.get(), log.c_str(), IN_MODIFY) < 0) {
    return sys::from_errno("watch " + log.string(), errno);
  }
  sys::SpawnPlan plan;
  plan.program = program;
  plan.argv = {program};
  plan.argv.insert(plan.argv.end(), arguments.begin(), arguments.end());
  plan.env = environment();
  plan.cwd = log.parent_path();
  plan.fds = {{1, out.get()}, {2, out.get()}};
  plan.group = sys::SpawnPlan::Group::NewSession;
  auto child = sys::spawn(plan);
  if (!child) return Failure(child.error());
  DaemonProcess process{child->pid, 0};
  if (const auto found = sys::read_process(child->pid)) process.start = found->start;
  if (auto ok = started(process); !ok) return ok;

  std::array<pollfd, 3> waits{pollfd{watch.get(), POLLIN, 0}, pollfd{child->pidfd.get(), POLLIN, 0},
                              pollfd{signals.fd(), POLLIN, 0}};
  for (;;) {
    while (::poll(waits.data(), waits.size(), -1) < 0 && errno == EINTR) {
    }
    if (signals.take()) return fail(Code::Cancelled, "interrupted while " + program.filename().string() + " started");
    std::array<char, 4096> events;
    while (::read(watch.get(), events.data(), events.size()) > 0) {
    }
    auto text = sys::read_text(log);
    if (!text) return Failure(text.error());
    const bool ended = waits[1].revents != 0;
    if (!ended && text->find(kReady) != std::string::npos) return {};
    if (!ended) continue;
    const auto status = sys::reap(*child);
    return fail(Code::Unavailable, program.filename().string() + " did not start (status " +
                                       std::to_string(status ? status->code : -1) + "):\n" + last_lines(*text));
  }
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
