#pragma once

#include <atomic>
#include <chrono>

namespace osb {

// Where a service asks for the time, so that a test can set it. Only base and http read other clocks (CONTRIBUTING.md).
class Clock {
 public:
  virtual ~Clock() = default;
  virtual std::chrono::system_clock::time_point now() const = 0;         // for people and records; may jump
  virtual std::chrono::steady_clock::time_point steady_now() const = 0;  // for intervals; never goes back
};

class SystemClock final : public Clock {
 public:
  std::chrono::system_clock::time_point now() const override { return std::chrono::system_clock::now(); }
  std::chrono::steady_clock::time_point steady_now() const override { return std::chrono::steady_clock::now(); }
};

inline SystemClock& system_clock() {
  static SystemClock clock;
  return clock;
}

// Stands still until told otherwise. May be read and moved from different threads.
class FakeClock final : public Clock {
 public:
  using SystemTime = std::chrono::system_clock::time_point;
  using SteadyTime = std::chrono::steady_clock::time_point;

  explicit FakeClock(SystemTime start = SystemTime(std::chrono::seconds(1'700'000'000))) : now_(start) {}

  SystemTime now() const override { return now_.load(); }
  SteadyTime steady_now() const override { return steady_.load(); }

  // Sets the wall clock, forwards or back; intervals do not change.
  void set(SystemTime now) { now_.store(now); }

  // Time passes, on both clocks.
  void advance(std::chrono::nanoseconds by) {
    now_.store(now_.load() + std::chrono::duration_cast<SystemTime::duration>(by));
    steady_.store(steady_.load() + by);
  }

 private:
  std::atomic<SystemTime> now_;
  std::atomic<SteadyTime> steady_{SteadyTime(std::chrono::seconds(1000))};
};

}  // namespace osb
