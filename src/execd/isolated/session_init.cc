#include "execd/isolated/session_init.h"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <map>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/parse_number.h"
#include "execd/isolated/overlay_changes.h"
#include "execd/isolated/packet.h"
#include "execd/isolated/session_files.h"
#include "execd/path/path.h"
#include "sys/syscall.h"
#include "sys/write_all.h"

namespace osb::execd {
namespace {

constexpr std::size_t kMaxRequest = 64 * 1024 * 1024;
constexpr std::size_t kPiece = 3072;  // below what a packet holds
constexpr int kHighest = 255;         // of a descriptor in a child

// All of a run's own fields in the order of run_proxy.h.
struct RunRequest {
  std::string program;
  std::string cwd;
  std::vector<std::string> argv;
  std::vector<std::string> env;
};

Result<RunRequest> decode_run(std::string_view bytes) {
  auto fields = unpack_strings(bytes);
  if (!fields) return Failure(fields.error());
  const auto count = fields->size() < 3 ? std::nullopt : parse_number<std::size_t>((*fields)[2]);
  if (!count || *count == 0 || *count > fields->size() - 3) return fail(Code::InvalidRequest, "not a run");
  RunRequest out{std::move((*fields)[0]), std::move((*fields)[1]), {}, {}};
  const auto middle = fields->begin() + 3 + static_cast<std::ptrdiff_t>(*count);
  out.argv.assign(fields->begin() + 3, middle);
  out.env.assign(middle, fields->end());
  return out;
}

std::vector<char*> pointers_to(const std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (const std::string& text : strings) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

class SessionInit {
 public:
  SessionInit(int control, const SessionSpec& spec, const std::vector<SessionLayer>& layers, SessionUser user)
      : control_(control), spec_(spec), layers_(layers), user_(std::move(user)) {}

  [[noreturn]] void serve() {
    sigset_t all;
    ::sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, nullptr);
    sigset_t child;
    ::sigemptyset(&child);
    ::sigaddset(&child, SIGCHLD);
    const UniqueFd ended(::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK));
    for (;;) {
      std::vector<pollfd> waits = {{control_, POLLIN, 0}, {ended.get(), POLLIN, 0}};
      std::vector<pid_t> pids;
      for (const auto& [pid, socket] : runs_) {
        waits.push_back({socket.get(), POLLIN, 0});
        pids.push_back(pid);
      }
      if (::poll(waits.data(), waits.size(), -1) < 0 && errno != EINTR) ::_exit(1);
      if (waits[1].revents != 0) {
        signalfd_siginfo info;
        while (::read(ended.get(), &info, sizeof info) > 0) {
        }
      }
      for (std::size_t i = 0; i < pids.size(); ++i) {
        if (waits[i + 2].revents != 0) hear_run(pids[i]);
      }
      reap();
      if (waits[0].revents != 0) hear_control();
    }
  }

 private:
  void hear_control() {
    auto packet = receive_packet(control_);
    if (packet && !*packet) ::_exit(0);  // execd has ended the session, or has ended itself
    if (!packet || (*packet)->data.empty()) return;
    Packet& message = **packet;
    const char kind = message.data[0];
    if (user_.socket && (kind == session_message::kRun || kind == session_message::kFiles)) return hand_on(message);
    switch (kind) {
      case session_message::kRun:
        return start_run(message);
      case session_message::kFiles:
        return in_child([&](int fd) { serve_session_files(UniqueFd(fd), spec_); }, message);
      case session_message::kDiff:
        return in_child([&](int fd) { send_diff(fd); }, message);
      case session_message::kCommit:
        return in_child([&](int fd) { commit(fd); }, message);
      default:
        return;
    }
  }

  // A message that is not taken is dropped: its descriptors close, which tells the asker.
  void hand_on(const Packet& message) const {
    std::vector<int> fds;
    for (const UniqueFd& fd : message.fds) fds.push_back(fd.get());
    (void)send_packet(user_.socket.get(), message.data, fds);
  }

  // A signal for a run, or the end of the process that waits for it.
  void hear_run(pid_t pid) {
    const auto run = runs_.find(pid);
    if (run == runs_.end()) return;
    unsigned char number = 0;
    const ssize_t n = ::recv(run->second.get(), &number, 1, MSG_DONTWAIT);
    if (n == 1) {
      ::kill(-pid, number);
    } else if (n == 0 || errno != EAGAIN) {
      ::kill(-pid, SIGKILL);
      runs_.erase(run);  // nobody waits for its status
    }
  }

  void reap() {
    int status = 0;
    for (pid_t pid; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      if (pid == user_.pid) ::_exit(1);
      const auto run = runs_.find(pid);
      if (run == runs_.end()) continue;
      const RunStatus how = WIFSIGNALED(status) ? RunStatus{0, WTERMSIG(status)} : RunStatus{WEXITSTATUS(status), 0};
      (void)::send(run->second.get(), &how, sizeof how, MSG_NOSIGNAL | MSG_DONTWAIT);
      runs_.erase(run);
    }
  }

  // The work in a process of its own: it may take long. `fd` is the message's only descriptor.
  template <typename Work>
  void in_child(Work work, Packet& message) {
    if (message.fds.size() != 1) return;
    const pid_t pid = ::fork();
    if (pid != 0) return;  // a failure closes the descriptor, which tells the asker
    const int fd = message.fds.front().release();
    ::close(control_);
    runs_.clear();
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    work(fd);
    ::_exit(0);
  }

  static void tell(int socket, char kind, std::string_view text = {}) {
    (void)send_packet(socket, std::string(1, kind) + std::string(text.substr(0, kPiece)));
  }

  void send_diff(int socket) const {
    const auto done = write_changes(layers_, spec_.diff_bytes, [&](std::string_view bytes) -> Result<void> {
      for (; !bytes.empty(); bytes.remove_prefix(std::min(bytes.size(), kPiece))) {
        auto sent = send_packet(socket, session_message::kPiece + std::string(bytes.substr(0, kPiece)));
        if (!sent) return sent;
      }
      return {};
    });
    if (done) return tell(socket, session_message::kDone);
    const bool too_large = done.error().code == Code::TooLarge;
    tell(socket, too_large ? session_message::kTooLarge : session_message::kFailed, done.error().message);
  }

  void commit(int socket) const {
    const auto done = commit_changes(layers_);
    if (!done) return tell(socket, session_message::kFailed, done.error().message);
    tell(socket, session_message::kDone, std::to_string(done->written) + " " + std::to_string(done->removed));
  }

  void start_run(Packet& message) {
    if (message.fds.size() < 2) return;
    std::vector<int> targets;
    for (std::size_t i = 1; i < message.data.size(); ++i) {
      const int target = static_cast<unsigned char>(message.data[i]);
      if (target < 1 || target > kHighest) return;
      targets.push_back(target);
    }
    if (message.fds.size() != targets.size() + 2) return;
    const auto bytes = read_memory_file(message.fds[1].get(), kMaxRequest);
    const auto request = bytes ? decode_run(*bytes) : Result<RunRequest>(Failure(bytes.error()));
    if (!request) return;
    const std::vector<char*> argv = pointers_to(request->argv);
    const std::vector<char*> env = pointers_to(request->env);
    const pid_t pid = ::fork();
    if (pid == 0) run_child(message, targets, *request, argv, env);
    if (pid > 0) runs_.emplace(pid, std::move(message.fds[0]));
  }

  [[noreturn]] void run_child(const Packet& message, const std::vector<int>& targets, const RunRequest& request,
                              const std::vector<char*>& argv, const std::vector<char*>& env) const {
    ::setsid();
    std::vector<int> sources;
    for (std::size_t i = 0; i < targets.size(); ++i) {
      sources.push_back(::fcntl(message.fds[i + 2].get(), F_DUPFD_CLOEXEC, kHighest + 1));
    }
    const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    ::close_range(0, ~0U, CLOSE_RANGE_CLOEXEC);
    if (null >= 0) ::dup2(null, 0);
    for (std::size_t i = 0; i < targets.size(); ++i) ::dup2(sources[i], targets[i]);
    if (!become_session_user(spec_)) give_up("switch to the session's user", 126);
    enter(request.cwd);
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_DFL);
    ::execve(request.program.c_str(), argv.data(), env.data());
    give_up(request.program.c_str(), errno == ENOENT ? 127 : 126);
  }

  // The directory, or the nearest one above it that is there: a session stays usable.
  static void enter(std::string path) {
    while (path.size() > 1 && ::chdir(path.c_str()) < 0) path = parent_of(path);
    if (path.size() <= 1) (void)!::chdir("/");
  }

  [[noreturn]] static void give_up(const char* what, int code) {
    const std::string text = sys::from_errno(what, errno).error().message + "\n";
    (void)!::write(2, text.data(), text.size());
    ::_exit(code);
  }

  const int control_;
  const SessionSpec& spec_;
  const std::vector<SessionLayer>& layers_;
  const SessionUser user_;
  std::map<pid_t, UniqueFd> runs_;  // by the first process of each
};

}  // namespace

void serve_session(int control, const SessionSpec& spec, const std::vector<SessionLayer>& layers, SessionUser user) {
  ::prctl(PR_SET_DUMPABLE, 0);
  SessionInit(control, spec, layers, std::move(user)).serve();
}

}  // namespace osb::execd
