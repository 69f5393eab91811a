#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
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

  // `more`: further fields.
  void print(double seconds, const std::string& more = {}) {
    std::printf("{\"count\": %zu, \"per_s\": %.1f, %s%s%s}\n", values_.size(),
                static_cast<double>(values_.size()) / seconds, text().c_str(), more.empty() ? "" : ", ", more.c_str());
  }

  // The percentiles as fields of JSON.
  std::string text(const std::string& prefix = {}) {
    std::sort(values_.begin(), values_.end());
    std::string out;
    for (const int percent : {50, 90, 95, 99}) {
      char field[64];
      std::snprintf(field, sizeof field, "\"%sp%d\": %.4f", prefix.c_str(), percent, at(percent / 100.0));
      out += (out.empty() ? "" : ", ") + std::string(field);
    }
    return out;
  }

 private:
  double at(double share) const {
    if (values_.empty()) return 0;
    return values_[std::min(values_.size() - 1, static_cast<std::size_t>(share * static_cast<double>(values_.size())))];
  }

  std::vector<double> values_;
};

}  // namespace osb::bench
