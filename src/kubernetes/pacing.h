#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <random>

#include "async/net.h"
#include "async/timer.h"
#include "base/backoff.h"
#include "base/clock.h"

namespace osb::kubernetes {

// How a task waits; false: it was cancelled. Tests decide how long that takes.
using Sleep = std::function<net::awaitable<bool>(std::chrono::nanoseconds)>;
inline Sleep real_sleep() {
  return [](std::chrono::nanoseconds time) { return sleep_for(time); };
}

// Growing pauses between attempts, each shortened at random by up to a half, so that clients which lost the same
// server do not come back together.
class JitteredBackoff {
 public:
  JitteredBackoff(std::chrono::milliseconds first, std::chrono::milliseconds last,
                  std::uint32_t seed = std::random_device()())
      : pauses_(first, last), random_(seed) {}

  std::chrono::milliseconds next() {
    const auto whole = pauses_.next();
    std::uniform_int_distribution<std::int64_t> part(whole.count() / 2, whole.count());
    return std::chrono::milliseconds(part(random_));
  }
  void reset() { pauses_.reset(); }

 private:
  Backoff pauses_;
  std::minstd_rand random_;
};

// At most `per_second` calls a second in the long run and `burst` at once. Calls get their turns in order.
class TokenBucket {
 public:
  // `per_second` zero: no limit. `burst` zero: as many as a second has, at least one.
  TokenBucket(double per_second, int burst, const Clock& clock);

  // Takes a turn and tells how long the caller has to wait for it.
  std::chrono::nanoseconds take();

 private:
  double per_second_;
  double burst_;
  const Clock& clock_;
  double tokens_;
  std::chrono::steady_clock::time_point at_;
};

}  // namespace osb::kubernetes
