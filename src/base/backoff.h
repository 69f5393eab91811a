#pragma once

#include <algorithm>
#include <chrono>
#include <utility>

namespace osb {

// The pause between two attempts: it doubles up to a limit.
class Backoff {
 public:
  Backoff(std::chrono::milliseconds first, std::chrono::milliseconds last) : first_(first), last_(last), next_(first) {}

  std::chrono::milliseconds next() { return std::exchange(next_, std::min(next_ * 2, last_)); }
  void reset() { next_ = first_; }

 private:
  std::chrono::milliseconds first_, last_, next_;
};

}  // namespace osb
