#include "execd/isolated/run_proxy.h"

#include <cerrno>
#include <csignal>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/parse_number.h"
#include "execd/isolated/packet.h"
#include "execd/isolated/session_init.h"

namespace osb::execd {
namespace {

[[noreturn]] void end_like(const RunStatus& status) {
  if (status.signal == 0) ::_exit(status.code);
  ::prctl(PR_SET_DUMPABLE, 0);  // no core of ours for its signal
  ::signal(status.signal, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::raise(status.signal);
  ::_exit(128 + status.signal);
}

}  // namespace

Result<void> wrap_in_proxy(sys::SpawnPlan& plan, int control, UniqueFd& request) {
  std::vector<std::string> fields = {plan.program, plan.cwd, std::to_string(plan.argv.size())};
  fields.insert(fields.end(), plan.argv.begin(), plan.argv.end());
  fields.insert(fields.end(), plan.env.begin(), plan.env.end());
  auto file = make_memory_file(pack_strings(fields));
  if (!file) return Failure(file.error());
  request = std::move(*file);
  std::string targets = "1,2";
  for (const auto& [target, source] : plan.fds) {
    if (target > 2) targets += "," + std::to_string(target);
  }
  plan.program = "/proc/self/exe";
  plan.argv = {"execd", std::string(kRunProxyArgument), targets};
  plan.env.clear();
  plan.cwd.clear();
  plan.fds.emplace_back(kProxyControlFd, control);
  plan.fds.emplace_back(kProxyRequestFd, request.get());
  return {};
}

void run_proxy(std::string_view targets) {
  ::prctl(PR_SET_DUMPABLE, 0);
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  const UniqueFd signals(::signalfd(-1, &all, SFD_CLOEXEC));
  auto sockets = make_packet_sockets();
  if (!sockets || !signals) ::_exit(126);
  std::string data(1, session_message::kRun);
  std::vector<int> fds = {sockets->second.get(), kProxyRequestFd};
  while (!targets.empty()) {
    const std::size_t comma = std::min(targets.find(','), targets.size());
    const int target = parse_number<int>(targets.substr(0, comma)).value_or(0);
    if (target < 1 || target > 199) ::_exit(126);
    data += static_cast<char>(target);
    fds.push_back(target);
    targets.remove_prefix(std::min(comma + 1, targets.size()));
  }
  if (fds.size() > kMaxPacketFds || !send_packet(kProxyControlFd, data, fds)) end_like({0, SIGKILL});
  sockets->second.reset();
  // The real process holds them now; a reader sees the end when that closes them.
  for (std::size_t i = 2; i < fds.size(); ++i) ::close(fds[i]);
  ::close(kProxyControlFd);
  ::close(kProxyRequestFd);
  for (;;) {
    pollfd waits[2] = {{sockets->first.get(), POLLIN, 0}, {signals.get(), POLLIN, 0}};
    if (::poll(waits, 2, -1) < 0 && errno != EINTR) ::_exit(126);
    if (waits[1].revents != 0) {
      signalfd_siginfo info;
      if (::read(signals.get(), &info, sizeof info) == sizeof info) {
        const auto number = static_cast<unsigned char>(info.ssi_signo);
        (void)::send(sockets->first.get(), &number, 1, MSG_NOSIGNAL);
      }
    }
    if (waits[0].revents != 0) {
      RunStatus status;
      const ssize_t n = ::recv(sockets->first.get(), &status, sizeof status, 0);
      if (n == sizeof status) end_like(status);
      if (n < 0 && errno == EINTR) continue;
      end_like({0, SIGKILL});  // the session is gone, and the process with it
    }
  }
}

}  // namespace osb::execd
