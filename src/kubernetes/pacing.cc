#include "kubernetes/pacing.h"

#include <algorithm>

namespace osb::kubernetes {

using Seconds = std::chrono::duration<double>;

TokenBucket::TokenBucket(double per_second, int burst, const Clock& clock)
    : per_second_(per_second),
      burst_(burst > 0 ? burst : std::max(1.0, per_second)),
      clock_(clock),
      tokens_(burst_),
      at_(clock.steady_now()) {}

std::chrono::nanoseconds TokenBucket::take() {
  if (per_second_ <= 0) return {};
  const auto now = clock_.steady_now();
  tokens_ = std::min(burst_, tokens_ + Seconds(now - at_).count() * per_second_);
  at_ = now;
  // Below zero are turns that callers wait for already.
  tokens_ -= 1;
  if (tokens_ >= 0) return {};
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Seconds(-tokens_ / per_second_));
}

}  // namespace osb::kubernetes
