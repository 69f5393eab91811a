#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "async/net.h"
#include "async/timer.h"
#include "base/clock.h"
#include "base/error.h"
#include "kubernetes/object.h"
#include "kubernetes/pacing.h"

namespace osb::controller {

using kubernetes::Key;

// Keys of objects that need a look. A key waits at most once and is never in two hands: one that is added while it is
// worked on comes again afterwards. A key whose work failed comes again after a growing, jittered pause. One loop.
class WorkQueue {
 public:
  // The outcome of one look: when to look again without an event; nothing: not at all.
  using Again = std::optional<std::chrono::nanoseconds>;
  using Work = std::function<net::awaitable<Result<Again>>(Key)>;
  struct Options {
    std::string name;  // for the log
    std::size_t workers = 16;
    std::chrono::milliseconds first_pause{100}, last_pause{60'000};
    const Clock* clock = &system_clock();
    kubernetes::Sleep sleep = kubernetes::real_sleep();
  };
  WorkQueue(net::any_io_executor executor, Options options, Work work);

  void add(const Key& key);
  // The earliest of several moments counts; add() does not change it.
  void add_after(const Key& key, std::chrono::nanoseconds time);
  // Until it is cancelled. Once.
  net::awaitable<void> run();

  std::size_t waiting() const { return ready_.size(); }
  std::uint64_t done() const { return done_; }
  std::uint64_t failed() const { return failed_; }
  bool idle() const { return ready_.empty() && busy_.empty(); }
  net::awaitable<bool> wait_idle() {
    return changed_.wait_until([this] { return idle(); });
  }

 private:
  using Time = std::chrono::steady_clock::time_point;
  net::awaitable<void> worker();
  net::awaitable<void> look_at(Key key);
  net::awaitable<void> alarm();
  void ready_due();

  Options options_;
  Work work_;
  Notifier changed_, work_ready_, alarms_;
  std::deque<Key> ready_;
  std::set<Key> queued_;      // in ready_
  std::map<Key, bool> busy_;  // true: look again afterwards
  std::map<Key, Time> later_;
  std::set<std::pair<Time, Key>> by_time_;
  std::map<Key, kubernetes::JitteredBackoff> pauses_;
  std::uint64_t done_ = 0, failed_ = 0;
};

}  // namespace osb::controller
