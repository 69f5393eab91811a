#include "egress/sidecar/supervise.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <optional>
#include <sys/wait.h>
#include <unistd.h>

#include "base/backoff.h"
#include "base/deadline.h"
#include "base/log.h"
#include "base/stopwatch.h"

namespace osb::egress {
namespace {

using namespace std::chrono_literals;

constexpr auto kFirstPause = 10ms, kLastPause = 5000ms;
constexpr auto kComesUp = 5s;  // a worker that has lived so long had valid settings
constexpr auto kGrace = 8s;    // after SIGTERM; the engine waits a little longer

timespec to_timespec(std::chrono::nanoseconds time) {
  return {.tv_sec = time.count() / 1'000'000'000, .tv_nsec = time.count() % 1'000'000'000};
}

class Supervisor {
 public:
  explicit Supervisor(const std::vector<std::string>& arguments) : arguments_(arguments) {
    ::sigemptyset(&awaited_);
    for (const int signal : {SIGCHLD, SIGTERM, SIGINT}) ::sigaddset(&awaited_, signal);
    ::sigprocmask(SIG_BLOCK, &awaited_, &before_);
  }

  int run() {
    Backoff pause(kFirstPause, kLastPause);
    for (bool proven = false;;) {
      const Stopwatch time;
      if (!start()) return 1;
      const int status = wait_for_end();
      if (stopping_) return 0;
      if (time.elapsed() > kComesUp) {
        proven = true;
        pause.reset();
      }
      if (!proven && WIFEXITED(status) && WEXITSTATUS(status) != 0) return WEXITSTATUS(status);
      log_error("the worker ended; the network stays as it was",
                {{"code", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status)}});
      if (!sleep(pause.next())) return 0;
    }
  }

 private:
  bool start() {
    worker_ = ::fork();
    if (worker_ < 0) {
      log_error("no process for the worker", {{"errno", errno}});
      return false;
    }
    if (worker_ > 0) return true;
    ::sigprocmask(SIG_SETMASK, &before_, nullptr);
    std::vector<char*> argv = {const_cast<char*>("opensandbox-egress")};
    for (const std::string& argument : arguments_) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    ::execv("/proc/self/exe", argv.data());
    ::_exit(127);
  }

  // As the first process of its namespace it gets the orphans of others too.
  bool reap(int& status) {
    bool ended = false;
    for (;;) {
      int each = 0;
      const pid_t pid = ::waitpid(-1, &each, WNOHANG);
      if (pid <= 0) return ended;
      if (pid != worker_) continue;
      status = each;
      ended = true;
    }
  }

  int wait_for_end() {
    int status = 0;
    std::optional<Deadline> deadline;
    for (;;) {
      siginfo_t info{};
      int signal = 0;
      if (deadline) {
        const timespec left = to_timespec(deadline->left());
        signal = ::sigtimedwait(&awaited_, &info, &left);
        if (signal < 0 && errno == EAGAIN) ::kill(worker_, SIGKILL);
      } else {
        signal = ::sigwaitinfo(&awaited_, &info);
      }
      if (signal == SIGCHLD && reap(status)) return status;
      if ((signal == SIGTERM || signal == SIGINT) && !stopping_) {
        stopping_ = true;
        deadline.emplace(kGrace);
        ::kill(worker_, SIGTERM);
      }
    }
  }

  // False: told to end.
  bool sleep(std::chrono::nanoseconds time) {
    const Deadline end(time);
    for (;;) {
      if (end.passed()) return true;
      const timespec wait = to_timespec(end.left());
      siginfo_t info{};
      const int signal = ::sigtimedwait(&awaited_, &info, &wait);
      if (signal == SIGTERM || signal == SIGINT) return false;
      if (signal == SIGCHLD) {
        int ignored = 0;
        reap(ignored);
      }
    }
  }

  const std::vector<std::string>& arguments_;
  sigset_t awaited_{}, before_{};
  pid_t worker_ = -1;
  bool stopping_ = false;
};

}  // namespace

int supervise(const std::vector<std::string>& arguments) { return Supervisor(arguments).run(); }

}  // namespace osb::egress
