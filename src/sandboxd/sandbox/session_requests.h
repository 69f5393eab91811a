#pragma once

#include "async/blocking_pool.h"
#include "sandboxd/sandbox/sandbox_context.h"
#include "sandboxd/sandbox/sandbox_plan.h"

namespace osb::sandboxd {

// Isolated sessions of sandboxes that were created with them: each such sandbox's execd connects to a socket for every
// session that it wants. Nothing that comes over the socket is read here: the connection goes to the process that makes
// the session, which has no rights outside of the sandbox. Sandboxes are hostile: one process at a time is started for
// each, and all of them are in the sandbox's cgroup with its limits.
class SessionRequests {
 public:
  explicit SessionRequests(const SandboxContext& context) : context_(context), launches_(kThreads) {}

  // Binds the sandbox's socket and serves it until PID 1 has ended. Nothing happens for other sandboxes. A failure
  // leaves the sandbox without sessions.
  void serve(const EntryPtr& entry);

 private:
  static constexpr std::size_t kThreads = 16;

  net::awaitable<void> accept(EntryPtr entry, Descriptor listener, Descriptor ended);
  net::awaitable<void> start(EntryPtr entry, UniqueFd connection);

  const SandboxContext& context_;
  BlockingPool launches_;
};

}  // namespace osb::sandboxd
