#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "async/descriptor.h"
#include "async/net.h"
#include "base/error.h"
#include "base/time.h"

namespace osb::server {

// Wakes at a moment of the wall clock, by a timerfd: when somebody sets the clock forward it fires at once, when
// somebody sets it back it waits longer. One waiter.
class Alarm {
 public:
  static Result<Alarm> open(net::any_io_executor executor);

  // Never early. Nothing: only cancel() or cancelling the coroutine ends it. False: cancelled.
  net::awaitable<bool> wait_until(std::optional<Timestamp> when);
  void cancel() { timer_.cancel(); }

 private:
  explicit Alarm(Descriptor timer) : timer_(std::move(timer)) {}
  Descriptor timer_;
};

}  // namespace osb::server
