#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "async/net.h"
#include "base/error.h"

namespace osb {

// True: slept. False: the coroutine was cancelled meanwhile; it should end (its next co_await of an operation throws).
net::awaitable<bool> sleep_for(std::chrono::nanoseconds time);

namespace detail {

// Runs the task, cancels it after `limit`, and always waits for its end. Returns whether the time ran out; an exception
// of the task passes through unless it did. Cancelling the caller cancels the task.
net::awaitable<bool> run_limited(net::awaitable<void> task, std::chrono::nanoseconds limit);

template <typename T>
net::awaitable<void> store(net::awaitable<Result<T>> task, std::optional<Result<T>>& out) {
  out.emplace(co_await std::move(task));
}

}  // namespace detail

// The task's result, or Code::Timeout. The task is cancelled (terminal) when the time is up and has ended, with all its
// frames, when this returns: it may refer to the caller's variables. A success that still came in is returned.
template <typename T>
net::awaitable<Result<T>> with_timeout(net::awaitable<Result<T>> task, std::chrono::nanoseconds limit) {
  std::optional<Result<T>> result;
  const bool expired = co_await detail::run_limited(detail::store(std::move(task), result), limit);
  if (result && (*result || !expired)) co_return std::move(*result);
  co_return fail(Code::Timeout,
                 "timed out after " +
                     std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(limit).count()) + " ms");
}

// A condition variable for one loop: all calls happen on the thread of its executor. Between a test of the condition
// and wait() nothing else runs, so no wake-up is lost. Any number of waiters. It may be destroyed while they wait: they
// then get false.
class Notifier {
 public:
  explicit Notifier(net::any_io_executor executor);
  ~Notifier();
  Notifier(const Notifier&) = delete;
  Notifier& operator=(const Notifier&) = delete;

  // Wakes all present waiters. They run after the caller has returned to the loop.
  void notify_all();
  // Wakes the waiter that has waited longest.
  void notify_one();

  // True: notified. False: cancelled, or the notifier is gone.
  net::awaitable<bool> wait();

  // Until `condition()` holds. `condition` lives in the coroutine.
  template <typename Condition>
  net::awaitable<bool> wait_until(Condition condition) {
    while (!condition()) {
      if (!co_await wait()) co_return false;
    }
    co_return true;
  }

 private:
  struct Impl;
  static net::awaitable<bool> wait_on(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

// A flag to wait for, on one loop.
class Event {
 public:
  explicit Event(net::any_io_executor executor) : notifier_(std::move(executor)) {}

  void set() {
    set_ = true;
    notifier_.notify_all();
  }
  void clear() { set_ = false; }
  bool is_set() const { return set_; }

  // True: it was set, at once or later (even if cleared again before the waiter ran). False: cancelled, or gone.
  net::awaitable<bool> wait();

 private:
  Notifier notifier_;
  bool set_ = false;
};

}  // namespace osb
