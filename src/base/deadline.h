#pragma once

#include <algorithm>
#include <chrono>

#include "base/clock.h"

namespace osb {

// The end of a wait: of a call that blocks, or of attempts that are repeated. `clock` outlives it.
class Deadline {
 public:
  explicit Deadline(std::chrono::nanoseconds limit, const Clock& clock = system_clock())
      : clock_(&clock), end_(clock.steady_now() + limit) {}

  bool passed() const { return clock_->steady_now() >= end_; }
  // Rounded up to what poll() and timers take; 0 when it has passed.
  std::chrono::milliseconds left() const {
    return std::max(std::chrono::ceil<std::chrono::milliseconds>(end_ - clock_->steady_now()), {});
  }

 private:
  const Clock* clock_;
  std::chrono::steady_clock::time_point end_;
};

}  // namespace osb
