#pragma once

#include <functional>
#include <memory>
#include <sys/types.h>

#include "async/net.h"
#include "sys/spawn.h"

namespace osb {

// Owns SIGCHLD and all children of the process, which may be PID 1 or a subreaper: children that were registered
// complete their waiter, all others (orphans that were given to us) are only freed.
//
// Make one per process, before the first child, and use it on the thread of its loop. Children are freed on that thread
// only, so a pid that spawn() returned stays valid until its waiter has been called: watch it before going back to the
// loop. sys::reap() is for programs without a reaper.
class ChildReaper {
 public:
  explicit ChildReaper(net::any_io_executor executor);
  // Waiters that are left are never called.
  ~ChildReaper();
  ChildReaper(const ChildReaper&) = delete;
  ChildReaper& operator=(const ChildReaper&) = delete;

  // `done` runs once, on the loop, never from within watch(), also if the child has ended already. For a pid that is no
  // child of ours (any more) it gets kUnknown.
  void watch(pid_t pid, std::move_only_function<void(sys::ExitStatus)> done);
  // Forgets the waiter; the child will be freed as an orphan is.
  void unwatch(pid_t pid);
  bool watches(pid_t pid) const;

  // The same as a coroutine, which watches when it is awaited, not when it is made. Cancelling it throws
  // operation_aborted and unwatches.
  net::awaitable<sys::ExitStatus> wait(pid_t pid);

  // True: no child is left, running or ended. For PID 1 and subreapers this means that nothing they ever started, nor
  // what that started, exists any more. False: cancelled.
  net::awaitable<bool> wait_childless();

  static constexpr sys::ExitStatus kUnknown{-1, 0};

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace osb
