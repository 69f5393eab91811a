#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "async/net.h"

namespace osb {

// Background work with an owner: named, stoppable, awaited, instead of `detached`. One executor, no locks. The fence
// for exceptions: one that leaves a task is a bug and is logged with the task's name.
class TaskGroup {
 public:
  explicit TaskGroup(net::any_io_executor executor);
  // Tasks that still run are told to stop and left to themselves: await close() first if they refer to the owner.
  ~TaskGroup();
  TaskGroup(const TaskGroup&) = delete;
  TaskGroup& operator=(const TaskGroup&) = delete;

  // Starts on the next turn of the loop. After close() has begun a task is dropped without running.
  void spawn(std::string name, net::awaitable<void> task);

  // Tells every task to stop (terminal cancellation) and returns when all have ended. Tasks that take longer are named
  // in the log every five seconds. Not from within one of its own tasks.
  net::awaitable<void> close();

  std::size_t size() const;  // tasks that have not ended

 private:
  struct State;
  static net::awaitable<void> close_all(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace osb
