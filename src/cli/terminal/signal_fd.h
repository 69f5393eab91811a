#pragma once

#include <initializer_list>
#include <optional>
#include <signal.h>

#include "base/unique_fd.h"

namespace osb::cli {

// Signals as something to poll() for. They are blocked from construction to destruction for this thread and for
// threads it starts meanwhile: make it before the connection to the server, which has a thread of its own. Signals that
// came meanwhile and were not taken are lost afterwards. Signals that were ignored (nohup, background jobs) stay so.
class SignalFd {
 public:
  explicit SignalFd(std::initializer_list<int> signals);
  ~SignalFd();
  SignalFd(const SignalFd&) = delete;
  SignalFd& operator=(const SignalFd&) = delete;

  int fd() const { return fd_.get(); }
  // The next one that is there; never waits.
  std::optional<int> take();

 private:
  sigset_t before_;
  UniqueFd fd_;
};

// As shells report a process that a signal has ended.
inline int exit_code_of_signal(int signal) { return 128 + signal; }

}  // namespace osb::cli
