#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

namespace osb::bench {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Durations of one run, told as one line of JSON that run.py reads.
class Samples {
 public:
  void add(double milliseconds) { values_.push_back(milliseconds); }
  std::size_t size() const { return values_.size(); }

  void print(double seconds) {
    std::sort(values_.begin(), values_.end());
    std::printf("{\"count\": %zu, \"per_s\": %.1f, \"p50\": %.4f, \"p90\": %.4f, \"p99\": %.4f}\n", values_.size(),
                static_cast<double>(values_.size()) / seconds, at(0.50), at(0.90), at(0.99));
  }

 private:
  double at(double share) const {
    if (values_.empty()) return 0;
    return values_[std::min(values_.size() - 1, static_cast<std::size_t>(share * static_cast<double>(values_.size())))];
  }

  std::vector<double> values_;
};

}  // namespace osb::bench
