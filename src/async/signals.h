#pragma once

#include <initializer_list>
#include <memory>

#include "async/net.h"
#include "base/error.h"

namespace osb {

// Signals as events on a loop. From construction to destruction they no longer have their default effect. SIGCHLD
// belongs to ChildReaper.
class SignalSet {
 public:
  SignalSet(net::any_io_executor executor, std::initializer_list<int> signals);
  ~SignalSet();
  SignalSet(const SignalSet&) = delete;
  SignalSet& operator=(const SignalSet&) = delete;

  // The next one, also if it came since the last call; Code::Cancelled after cancel() or when the coroutine is
  // cancelled. The object outlives the call.
  net::awaitable<Result<int>> next();
  void cancel();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A writer learns from EPIPE that its reader has gone; the signal would end the process. Children are not affected:
// spawn() resets it.
void ignore_sigpipe();

}  // namespace osb
