#include "server/service/deadline_queue.h"

namespace osb::server {

void DeadlineQueue::add_ended(const std::string& id, Timestamp until) {
  forget_ended(id);
  ended_.emplace(until, id);
  ended_until_.emplace(id, until);
  move();
}

void DeadlineQueue::forget_ended(const std::string& id) {
  const auto until = ended_until_.find(id);
  if (until == ended_until_.end()) return;
  ended_.erase({until->second, id});
  ended_until_.erase(until);
}

std::vector<std::string> DeadlineQueue::take_ended(Timestamp now) {
  std::vector<std::string> out;
  while (!ended_.empty() && ended_.begin()->first <= now) {
    out.push_back(ended_.begin()->second);
    forget_ended(out.back());
  }
  return out;
}

std::optional<Timestamp> DeadlineQueue::next(Timestamp now) const {
  std::optional<Timestamp> next = store_.next_deadline();
  // A sandbox that was due is on its way out, and moves the queue when it has gone.
  if (next && *next <= now) next.reset();
  if (!ended_.empty() && (!next || ended_.begin()->first < *next)) next = ended_.begin()->first;
  return next;
}

}  // namespace osb::server
