#pragma once

#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "async/timer.h"
#include "server/store/store.h"

namespace osb::server {

// The next moment when a sandbox has to go: by its deadline, which the store knows, or because it has ended by itself
// and was visible long enough. Times are Moment::running(). One loop.
class DeadlineQueue {
 public:
  DeadlineQueue(net::any_io_executor executor, const Store& store) : store_(store), moved_(std::move(executor)) {}

  // A deadline has changed.
  void move() { moved_.notify_all(); }
  // Until one changes. False: cancelled.
  net::awaitable<bool> wait_moved() { return moved_.wait(); }

  // A sandbox that has ended by itself is visible until then.
  void add_ended(const std::string& id, Timestamp until);
  void forget_ended(const std::string& id);
  std::size_t ended() const { return ended_.size(); }
  // Takes out those whose time is over.
  std::vector<std::string> take_ended(Timestamp now);

  // The earliest moment after `now`; nothing when there is none.
  std::optional<Timestamp> next(Timestamp now) const;

 private:
  const Store& store_;
  Notifier moved_;
  std::set<std::pair<Timestamp, std::string>> ended_;
  std::unordered_map<std::string, Timestamp> ended_until_;
};

}  // namespace osb::server
