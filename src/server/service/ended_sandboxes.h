#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/time.h"

namespace osb::server {

// Remembers how the last sandboxes left, so that the answer to a later question can say more than "does not exist".
// Bounded: the oldest is forgotten first. Lost with the process.
class EndedSandboxes {
 public:
  static constexpr std::size_t kMost = 4096;

  void note_expired(const std::string& id, Timestamp at) { note(id, "expired at " + format_timestamp(at)); }
  void note_deleted(const std::string& id, Timestamp at) {
    note(id, "was deleted at " + format_timestamp(at) + " by an API request");
  }
  // A sandbox that ended by itself and was kept for a while; `why` is the message of its last status.
  void note_retired(const std::string& id, Timestamp at, const std::string& why) {
    note(id, "ended" + (why.empty() ? "" : " (" + why + ")") + " and was removed at " + format_timestamp(at));
  }

  // The words behind "sandbox ID", such as "expired at 2026-01-02T03:04:05Z"; empty if unknown.
  std::string find(std::string_view id) const {
    const auto found = endings_.find(std::string(id));
    return found == endings_.end() ? std::string() : found->second;
  }
  std::size_t size() const { return endings_.size(); }

 private:
  void note(const std::string& id, std::string how) {
    if (!endings_.insert_or_assign(id, std::move(how)).second) return;
    order_.push_back(id);
    if (order_.size() <= kMost) return;
    endings_.erase(order_.front());
    order_.pop_front();
  }

  std::unordered_map<std::string, std::string> endings_;
  std::deque<std::string> order_;
};

}  // namespace osb::server
