#pragma once

#include <chrono>

#include "base/clock.h"

namespace osb {

// The time since it was made. `clock` outlives it.
class Stopwatch {
 public:
  explicit Stopwatch(const Clock& clock = system_clock()) : clock_(&clock), start_(clock.steady_now()) {}

  std::chrono::nanoseconds elapsed() const { return clock_->steady_now() - start_; }
  double ms() const { return std::chrono::duration<double, std::milli>(elapsed()).count(); }

 private:
  const Clock* clock_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace osb
