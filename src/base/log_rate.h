#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

namespace osb {

// Bounds how often strangers can cause a log line. One thread at a time.
class LogRate {
 public:
  using Clock = std::chrono::steady_clock;

  explicit LogRate(Clock::duration interval = std::chrono::seconds(10)) : interval_(interval) {}

  // Nothing: the interval since the last line is not over, so log nothing. Otherwise log one line; the value says how
  // many were left out before it.
  std::optional<std::uint64_t> next(Clock::time_point now = Clock::now()) {
    if (last_ && now - *last_ < interval_) {
      ++left_out_;
      return std::nullopt;
    }
    last_ = now;
    return std::exchange(left_out_, 0);
  }

 private:
  Clock::duration interval_;
  std::optional<Clock::time_point> last_;
  std::uint64_t left_out_ = 0;
};

}  // namespace osb
