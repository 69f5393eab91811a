#pragma once

#include <chrono>
#include <set>

#include "async/timer.h"
#include "base/clock.h"
#include "kubernetes/pacing.h"

namespace osb::kubernetes::testing {

// Time that passes when the test says so, for clocks and sleeps alike.
class TestTime {
 public:
  explicit TestTime(net::any_io_executor executor) : changed_(std::move(executor)) {}

  const Clock& clock() const { return clock_; }
  Sleep sleep() {
    return [this](std::chrono::nanoseconds time) { return sleep_until(clock_.steady_now() + time); };
  }
  void advance(std::chrono::nanoseconds by) {
    clock_.advance(by);
    changed_.notify_all();
  }
  // Until a task sleeps that wakes in exactly so long.
  net::awaitable<bool> wait_alarm(std::chrono::nanoseconds from_now) {
    const auto end = clock_.steady_now() + from_now;
    return changed_.wait_until([this, end] { return alarms_.contains(end); });
  }

 private:
  using Time = std::chrono::steady_clock::time_point;
  net::awaitable<bool> sleep_until(Time end) {
    struct Alarm {
      Alarm(TestTime& t, Time end) : time(t), place(t.alarms_.insert(end)) { time.changed_.notify_all(); }
      ~Alarm() { time.alarms_.erase(place); }
      Alarm(const Alarm&) = delete;
      TestTime& time;
      std::multiset<Time>::iterator place;
    };
    const Alarm alarm(*this, end);
    co_return co_await changed_.wait_until([this, end] { return clock_.steady_now() >= end; });
  }

  FakeClock clock_;
  Notifier changed_;
  std::multiset<Time> alarms_;
};

}  // namespace osb::kubernetes::testing
