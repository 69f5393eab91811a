#include "server/diagnostics/event_history.h"

namespace osb::server {

void EventHistory::note(std::string_view id, Timestamp at, const api::Status& status) {
  auto& events = events_[std::string(id)];
  if (!events.empty() && events.back().state == status.state && events.back().reason == status.reason) {
    events.back().message = status.message;
    return;
  }
  if (events.size() == kept_) events.erase(events.begin());
  events.push_back({at, status.state, status.reason, status.message});
}

void EventHistory::forget(std::string_view id) { events_.erase(std::string(id)); }

std::vector<SandboxEvent> EventHistory::of(std::string_view id) const {
  const auto found = events_.find(std::string(id));
  if (found == events_.end()) return {};
  return found->second;
}

}  // namespace osb::server
